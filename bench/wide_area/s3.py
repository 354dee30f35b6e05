"""An S3 server on the far side, VersityGW, and rclone's settings for it.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import shutil

from gating import objects
from wide_area import link

PORT = 7474
FOLDER = "far"
# What a copy goes to, in the environment that `bucket` gives.
BUCKET = f"far:{FOLDER}"
# rclone's best of those tried: for one large file, and for many small ones.
LARGE = ["--s3-upload-concurrency", "16", "--s3-chunk-size", "8M", "--s3-upload-cutoff", "8M"]
LARGE_BACK = ["--multi-thread-streams", "16", "--multi-thread-cutoff", "8M"]
SMALL = ["--transfers", "64", "--checkers", "64", "--no-traverse"]


@contextlib.contextmanager
def bucket(far, environment):
    """A server with an empty bucket; gives rclone's environment."""
    shutil.rmtree(far.folder, ignore_errors=True)
    (far.folder / FOLDER).mkdir(parents=True)
    account = {"ROOT_ACCESS_KEY": objects.ACCESS_KEY, "ROOT_SECRET_KEY": objects.SECRET_KEY}
    listen = ["--quiet", "--keep-alive", "--port", f"0.0.0.0:{PORT}"]
    server = [objects.find_server(), *listen, "posix", far.folder]
    with far.running(environment | account, server, PORT):
        yield environment | {
            "RCLONE_CONFIG": "/dev/null",
            # rclone takes no other authorities beside its own transport.
            "AWS_CA_BUNDLE": "",
            "RCLONE_CONFIG_FAR_TYPE": "s3",
            "RCLONE_CONFIG_FAR_PROVIDER": "Other",
            "RCLONE_CONFIG_FAR_ENDPOINT": f"http://{link.FAR}:{PORT}",
            "RCLONE_CONFIG_FAR_ACCESS_KEY_ID": objects.ACCESS_KEY,
            "RCLONE_CONFIG_FAR_SECRET_ACCESS_KEY": objects.SECRET_KEY,
            "RCLONE_S3_NO_CHECK_BUCKET": "true",
        }
