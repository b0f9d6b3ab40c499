#!/bin/sh
# Usage: setup.sh DIR
#
# Makes a Python environment in DIR with what requirements.txt names and prints
# the path of its python as the last line on stdout. Does nothing when DIR is
# already made for this requirements.txt and this Python. PYTHON chooses another
# interpreter than python3.
set -eu

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

[ $# -eq 1 ] || fail "usage: setup.sh DIR"
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
requirements=$here/requirements.txt
[ -r "$requirements" ] || fail "cannot read $requirements"
python=$(command -v "${PYTHON:-python3}") || fail "there is no ${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is older than Python 3.11"
mkdir -p -- "$1" || fail "cannot make the directory $1"
dir=$(CDPATH='' cd -- "$1" && pwd)

# Tests run side by side; only one of them installs and the others wait.
if command -v flock >/dev/null 2>&1; then
    exec 9>"$dir/.lock"
    flock 9
fi

wanted=$("$python" -c '
import hashlib, sys
print(sys.version, hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())
' "$requirements" | tr -d '\n')
stamp=$dir/.made-for
log=$dir/install.log

if [ -x "$dir/env/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    echo "$dir/env/bin/python"
    exit 0
fi

install() {
    "$@" --quiet --disable-pip-version-check --no-input \
        --requirement "$requirements" >"$log" 2>&1 9>&- || {
        tail -n 20 "$log" >&2
        fail "the libraries could not be installed; all of it is in $log"
    }
}

rm -rf -- "$dir/env" "$stamp"
if "$python" -m venv "$dir/env" >"$log" 2>&1 &&
    "$dir/env/bin/python" -m pip --version >>"$log" 2>&1; then
    install "$dir/env/bin/python" -m pip install
else
    # Some systems ship venv without ensurepip. The libraries then go into a
    # plain directory, and a small script stands in for the python of a venv.
    rm -rf -- "$dir/env"
    "$python" -m pip --version >>"$log" 2>&1 || {
        cat "$log" >&2
        fail "$python has neither a working venv nor pip"
    }
    install "$python" -m pip install --target "$dir/env/lib"
    mkdir -p -- "$dir/env/bin"
    cat >"$dir/env/bin/python" <<SCRIPT
#!/bin/sh
PYTHONPATH='$dir/env/lib' exec '$python' "\$@"
SCRIPT
    chmod +x "$dir/env/bin/python"
fi

"$dir/env/bin/python" -c 'import schemathesis, openapi_spec_validator, prometheus_client' \
    >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "the libraries are installed but cannot be imported"
}
printf '%s' "$wanted" >"$stamp"
echo "$dir/env/bin/python"
