#!/bin/sh
# Makes a root with the Python of this machine in the directory that is named: the interpreter, what it loads, and its standard
# library as it is compiled. For tests and benches of sandboxes that have an image.
set -e
python=$(readlink -f /usr/bin/python3)
library=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')
cd "$1"
mkdir -p tmp srv etc usr/bin usr/sbin usr/lib usr/lib64 usr/local
ln -sf usr/bin bin; ln -sf usr/sbin sbin; ln -sf usr/lib lib; ln -sf usr/lib64 lib64
for file in "$python" /bin/sh /bin/cat /bin/sleep /usr/bin/id $(find "$library/lib-dynload" -name '*.so'); do
    for one in "$file" $(ldd "$file" | grep -o '/[^ ]*'); do
        target=usr/${one#/usr/}; case $one in /usr/*) ;; *) target=usr$one ;; esac
        mkdir -p "$(dirname "$target")"; cp -Lf "$one" "$target"
    done
done
ln -sf "$(basename "$python")" usr/bin/python3
mkdir -p ".$library"
(cd "$library" && tar -c --exclude=./test --exclude=./dist-packages --exclude=./idlelib --exclude='./config-*' --exclude=./lib2to3 \
    --exclude=./ensurepip --exclude=./tkinter --exclude=sitecustomize.py . ) | tar -x -C ".$library"
