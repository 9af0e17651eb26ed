#!/bin/sh
# Runs the Python program with Debian's interpreter, for which Debian's grpcio is installed.
exec /usr/bin/python3 tests/python_client/python_client_test.py server/muster-server "$@"
