#!/bin/sh
# Makes a CPython 3.11 for Windows with the device client's packages, and a Wine prefix, for `make test-wine`:
#
#     apt-get install --no-install-recommends wine wine64 gcc-mingw-w64-x86-64-win32
#     sh tests/wine/windows_python.sh FOLDER
#
# FOLDER gets 1 GB: `py` (the Python), `prefix` (Wine's), `wheels`. What Wine 8 lacks is made up for here, and
# only here: the client runs as it is.
set -eu
mkdir -p "$1/dl" "$1/py/DLLs"
folder=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3.11}
library=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')
compiler=x86_64-w64-mingw32-gcc
cd "$folder"

fetch() {
    "$python" -m pip download --quiet --disable-pip-version-check --platform win_amd64 --only-binary=:all: \
        --python-version 3.11 --implementation cp "$@"
}

# The python311.dll of python.org and its extensions, which this wheel carries for the programs that it packs.
fetch --no-deps --dest dl panda3d==1.10.16
"$python" - <<'END'
import os
import zipfile

wheel = zipfile.ZipFile("dl/panda3d-1.10.16-cp311-cp311-win_amd64.whl")
for name in wheel.namelist():
    base = os.path.basename(name)
    if name.startswith("deploy_libs/") and not base.lower().startswith(("api-ms", "tcl", "tk", "libpanda", "libp3")):
        folder = "py/DLLs/" if base.endswith(".pyd") or base.startswith(("lib", "sqlite3")) else "py/"
        with open(folder + base, "wb") as file:
            file.write(wheel.read(name))
END
rm -rf py/Lib
cp -r "$library" py/Lib
(cd py/Lib && rm -rf test lib-dynload site-packages dist-packages config-* idlelib ensurepip && mkdir site-packages)
# The DLL is of 3.11.9; the library of a version before 3.11.8 lacks this decorator, which it wants.
finder=py/Lib/importlib/metadata/__init__.py
grep -B1 'def invalidate_caches(cls)' "$finder" | grep -q classmethod ||
    sed -i 's/^    def invalidate_caches(cls):/    @classmethod\n&/' "$finder"

cd py
cat >e.c <<'END'
#include <wchar.h>
__declspec(dllimport) int Py_Main(int, wchar_t **);
int wmain(int c, wchar_t **v) { return Py_Main(c, v); }
END
"$compiler" -municode -O1 e.c -o python.exe python311.dll
# Extensions in Rust import ProcessPrng, which Wine 8 lacks.
cat >b.c <<'END'
#include <windows.h>
BOOLEAN WINAPI SystemFunction036(void *, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(unsigned char *d, SIZE_T n) { return SystemFunction036(d, n); }
END
"$compiler" -shared -O1 b.c -o bcryptprimitives.dll -ladvapi32
# Wheels for any version (abi3) import python3.dll, which is not in the wheel: each name forwards to python311.
{
    echo 'LIBRARY python3.dll'
    echo EXPORTS
    x86_64-w64-mingw32-objdump -p python311.dll | sed -n '/Ordinal\/Name Pointer/,$p' |
        awk '/^\t\[/{name=$NF; if (name ~ /^_?Py/) print name "=python311." name}'
} >python3.def
"$compiler" -shared -nostdlib -Wl,--entry=0 python3.def -o python3.dll
cd ..

# pip judges markers by this machine, so what only Windows needs is named here. Without uiautomation: Wine 8 has
# no UI Automation that it could use.
"$python" - "$source/pyproject.toml" >requirements.txt <<'END'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    wanted = tomllib.load(file)["project"]["dependencies"]
print(*(line for line in wanted if "sys_platform" not in line), "colorama", "pywin32", "tzdata", sep="\n")
END
fetch --dest wheels -r requirements.txt
"$python" -m pip install --quiet --disable-pip-version-check --platform win_amd64 --only-binary=:all: \
    --python-version 3.11 --implementation cp --no-deps --no-compile --target py/Lib/site-packages wheels/*.whl

# psutil asks for a process's program by a system call that Wine 8 lacks (SystemProcessIdInformation).
psutil=py/Lib/site-packages/psutil/_pswindows.py
cat >>"$psutil" <<'END'


def _wine_exe(pid):
    import ctypes
    from ctypes import wintypes

    kernel = ctypes.windll.kernel32
    kernel.OpenProcess.restype = wintypes.HANDLE
    handle = kernel.OpenProcess(0x1000, False, pid)
    if not handle:
        raise AccessDenied(pid)
    try:
        buffer, size = ctypes.create_unicode_buffer(1024), wintypes.DWORD(1024)
        if not kernel.QueryFullProcessImageNameW(wintypes.HANDLE(handle), 0, buffer, ctypes.byref(size)):
            raise AccessDenied(pid)
        return buffer.value
    finally:
        kernel.CloseHandle(wintypes.HANDLE(handle))
END
sed -i 's/exe = cext.proc_exe(self.pid)/exe = _wine_exe(self.pid)/' "$psutil"

export WINEPREFIX="$folder/prefix" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree=d;mshtml=d"
unset DISPLAY PYTHONPATH
# Each Wine command has a pipe of its own: a file as standard output ends Python at its start.
timeout 120 wineboot -i 2>/dev/null | cat
timeout 60 wine winecfg -v win10 2>/dev/null | cat
timeout 60 wine py/python.exe -c 'import sys; print(sys.version, sys.platform)' </dev/null 2>&1 | cat
timeout 20 wineserver -k || true
