"""What a browser of `tests.kit.browser` trusts, and the client certificate that it shows: imported as by a user."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.kit.built import need
from tests.kit.certificates import KeyPair

PACKAGE = "libnss3-tools"


def give_certificate(folder: Path, authority: Path, pair: KeyPair, origin: str) -> None:
    """Before a browser with its files in `folder` begins: trust a CA, and show a client certificate at an origin
    (`https://localhost:1234`) without asking which one."""
    for tool in ("certutil", "pk12util"):
        need(tool, PACKAGE)
    need("openssl", "openssl")
    store = folder / ".pki" / "nssdb"
    store.mkdir(parents=True)
    at, bundle = f"sql:{store}", str(folder / "client.p12")
    call("certutil", "-d", at, "-N", "--empty-password")
    call("certutil", "-d", at, "-A", "-t", "C,,", "-n", "authority", "-i", str(authority))
    files = ("-in", str(pair.cert), "-inkey", str(pair.key), "-out", bundle)
    call("openssl", "pkcs12", "-export", *files, "-passout", "pass:", "-name", "client")
    call("pk12util", "-d", at, "-i", bundle, "-W", "", "-K", "")
    # What a policy of an administrator would say in AutoSelectCertificateForUrls; without a screen, nobody can choose.
    chosen: dict[str, Any] = {f"{origin},*": {"setting": {"filters": [{}]}}}
    settings = {"profile": {"content_settings": {"exceptions": {"auto_select_certificate": chosen}}}}
    (folder / "Default").mkdir()
    (folder / "Default" / "Preferences").write_text(json.dumps(settings), encoding="utf-8")


def call(*command: str) -> None:
    """Run a program, which must succeed."""
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
