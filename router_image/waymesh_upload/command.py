"""The command `waymesh-upload`."""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from waymesh_upload.store import AWS, REGION, S3, Credentials, Target, UsageError
from waymesh_upload.uploader import Uploader, UploadPass

MAX_WAIT_S = 60.0
"""The longest pause between two passes while the store refuses."""
EXIT_USAGE = 2
EXIT_SET_ASIDE = 3
LOG = logging.getLogger("waymesh-upload")

DESCRIPTION = """\
Upload the finished telemetry files of routers to an S3 object store, then remove them from the spool.
Each file becomes an object of the same name below the target: s3://bucket/prefix/v1/kind=.../dt=.../hr=.../FILE.
Uploading a file again overwrites the same object."""

EPILOG = """\
Credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN in the
environment. While the store refuses, files stay in the spool and the pauses between tries grow to a minute. A file that
fails five times while others are uploaded, or that cannot be read, is set aside: it stays in the spool and is tried
again each hour.
On SIGTERM and SIGINT, the command makes one more pass and exits. In a pod, run it as a sidecar that ends after the
router (an init container with restartPolicy: Always), so that it uploads the last files of the router too.
Exit codes: 0 success; 1 with --once: files are left; 2 invalid arguments or environment; 3 without --once: files are
set aside at the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        store = S3(Target.parse(options.target), options.endpoint, options.region, Credentials.of(os.environ))
    except UsageError as error:
        sys.stderr.write(f"waymesh-upload: {error}\n")
        return EXIT_USAGE
    service = Service(Uploader(Path(options.spool), store, time.time), options.interval_seconds)
    if options.once:
        return 1 if service.turn().waiting else 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    LOG.info("uploading %s to %s every %g s", options.spool, options.target, options.interval_seconds)
    return EXIT_SET_ASIDE if service.run().set_aside else 0


class Service:
    """Makes passes over the spool until it is stopped."""

    def __init__(self, uploader: Uploader, interval_s: float) -> None:
        self._uploader = uploader
        self._interval_s = interval_s
        self._stopped = False
        self._wake = SimpleQueue[None]()  # an event has a lock, which the thread may hold that a signal interrupts
        self._refused_passes = 0
        self._total = 0

    def stop(self) -> None:
        """Make one more pass and end. May be called in a signal handler."""
        self._stopped = True
        self._wake.put(None)

    def run(self) -> UploadPass:
        """Make passes until `stop` is called; returns the last one."""
        while not self._stopped:
            self.turn()
            with suppress(Empty):
                self._wake.get(timeout=self._pause())
        last = self.turn()
        LOG.info("stopped; %d files uploaded in total, %d set aside", self._total, last.set_aside)
        return last

    def turn(self) -> UploadPass:
        """Make one pass and log its result."""
        done = self._uploader.run()
        self._total += done.files
        if done.files:
            LOG.info("%d files, %d bytes uploaded; %d files in total", done.files, done.size, self._total)
        for path, reason in done.failed.items():
            LOG.warning("%s was refused while others were accepted: %s", path, reason)
        for path in done.newly_set_aside:
            LOG.error("%s is set aside and will be retried each hour; %d files are set aside", path, done.set_aside)
        if done.refusal:
            self._refused_passes += 1
            count = self._refused_passes
            LOG.warning("upload refused (%d passes in a row), %d files waiting: %s", count, done.waiting, done.refusal)
        else:
            if self._refused_passes:
                LOG.info("the store accepts files again")
            self._refused_passes = 0
        return done

    def _pause(self) -> float:
        """Seconds to the next pass. They grow after refusals, with jitter, so that pods do not retry together."""
        if not self._refused_passes:
            return self._interval_s
        longest = max(self._interval_s, MAX_WAIT_S)
        return min(longest, self._interval_s * 2.0**min(self._refused_passes, 16)) * random.uniform(0.5, 1.0)


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("waymesh-upload", description=DESCRIPTION, epilog=EPILOG, formatter_class=plain)
    add = parser.add_argument
    add("--spool", required=True, metavar="DIR", help="the folder in telemetry.path of the routers")
    add("--target", required=True, metavar="s3://BUCKET[/PREFIX]", help="where to upload; the bucket must exist")
    add("--endpoint", default=AWS, metavar="URL", help=f"URL of the S3 server (default: {AWS})")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
    add("--region", default=region, help="region of the bucket (default: AWS_REGION, AWS_DEFAULT_REGION or us-east-1)")
    add("--interval-seconds", type=_seconds, default=5.0, metavar="S", help="pause between two passes (default: 5)")
    add("--once", action="store_true", help="make one pass and exit")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 3600")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
