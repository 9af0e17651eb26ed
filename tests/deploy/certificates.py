"""Certificates of a cluster, as docs/operations.md makes them."""

import subprocess

CERTIFICATE_FILES = {"authority": "ca.crt", "certificate": "tls.crt", "key": "tls.key"}


def make_certificates(folder, names):
    """The three files, and the authority's key: one certificate for all, with names such as DNS:host and IP:address."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(*new, "-x509", "-days", "1", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    openssl(*new, "-subj", "/CN=muster", "-addext", f"subjectAltName={','.join(names)}", "-keyout", "tls.key", "-out", "tls.csr")
    openssl("x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1",
            "-copy_extensions", "copy", "-out", "tls.crt")


def certificate_flags(folder):
    """Those of every program."""
    return [f"--tls-{flag}={folder}/{name}" for flag, name in CERTIFICATE_FILES.items()]
