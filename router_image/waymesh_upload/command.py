"""The command `waymesh-upload`."""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from waymesh_upload.store import AWS, REGION, S3, Credentials, Target, UsageError
from waymesh_upload.uploader import Passage, Uploader

MAX_WAIT_S = 60.0
"""The longest time between two tries while the store refuses."""
USAGE = 2
ASIDE = 3
LOG = logging.getLogger("waymesh-upload")

DESCRIPTION = """\
Upload the finished telemetry files of routers to an object store that speaks S3, and remove them here.
Each file becomes the object of the same name below the target: s3://bucket/prefix/v1/kind=.../dt=.../hr=.../FILE.
What is uploaded twice is there once."""

EPILOG = """\
Credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary ones, AWS_SESSION_TOKEN in the environment.
While the store refuses, files stay, and the pauses between tries grow to a minute. A file that is not taken five times
while others are, or that can't be read, is set aside: it stays where it is, and is tried again each hour.
SIGTERM and SIGINT: one more pass, then the end. In a pod this is a sidecar that ends after the router (an init
container with restartPolicy: Always), so that it takes along what the router publishes last.
Exit codes: 0 in order; 1 with --once when files are left; 2 when the arguments or the environment are wrong; 3 without
--once when files are set aside at the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        store = S3(Target.parse(options.target), options.endpoint, options.region, Credentials.of(os.environ))
    except UsageError as error:
        sys.stderr.write(f"waymesh-upload: {error}\n")
        return USAGE
    service = Service(Uploader(Path(options.spool), store, time.time), options.interval_seconds)
    if options.once:
        return 1 if service.turn().waiting else 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    LOG.info("uploads %s to %s every %g s", options.spool, options.target, options.interval_seconds)
    return ASIDE if service.run().aside else 0


class Service:
    """Passes over the spool, one after the other, until it is stopped."""

    def __init__(self, uploader: Uploader, interval_s: float) -> None:
        self._uploader = uploader
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._refusals = 0
        self._total = 0

    def stop(self) -> None:
        """Make one more pass, and end. May be called in a signal handler."""
        self._stopped.set()

    def run(self) -> Passage:
        """Until `stop`; returns what became of the last pass."""
        while not self._stopped.is_set():
            self.turn()
            self._stopped.wait(self._pause())
        last = self.turn()
        LOG.info("ends; %d files uploaded in all, %d set aside", self._total, last.aside)
        return last

    def turn(self) -> Passage:
        """One pass; says what became of it where there is something to say."""
        done = self._uploader.run()
        self._total += done.files
        if done.files:
            LOG.info("%d files, %d bytes uploaded; %d files in all", done.files, done.size, self._total)
        for path, reason in done.failed.items():
            LOG.warning("%s was not taken, though others were: %s", path, reason)
        for path in done.given_up:
            LOG.error("%s is set aside, and tried again each hour; %d files are set aside", path, done.aside)
        if done.refusal:
            self._refusals += 1
            LOG.warning("refused (%d times now), %d files wait: %s", self._refusals, done.waiting, done.refusal)
        else:
            if self._refusals:
                LOG.info("the store accepts again")
            self._refusals = 0
        return done

    def _pause(self) -> float:
        """Seconds to the next pass; after a refusal more each time, and not the same for all pods."""
        if not self._refusals:
            return self._interval_s
        longest = max(self._interval_s, MAX_WAIT_S)
        return min(longest, self._interval_s * 2.0**min(self._refusals, 16)) * random.uniform(0.5, 1.0)


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("waymesh-upload", description=DESCRIPTION, epilog=EPILOG, formatter_class=plain)
    add = parser.add_argument
    add("--spool", required=True, metavar="DIR", help="the folder that telemetry.path of the routers names")
    add("--target", required=True, metavar="s3://BUCKET[/PREFIX]", help="where the files go; the bucket must exist")
    add("--endpoint", default=AWS, metavar="URL", help=f"the server, when it is not Amazon's ({AWS})")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
    add("--region", default=region, help="region of the bucket; AWS_REGION or AWS_DEFAULT_REGION, else us-east-1")
    add("--interval-seconds", type=_seconds, default=5.0, metavar="S", help="pause between two passes (5)")
    add("--once", action="store_true", help="make one pass and end")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 3600")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
