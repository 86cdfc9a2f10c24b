#!/bin/sh
# A project without a build system. $1: the folder of product.cc and product.txt, $2: where to build; CXX: the
# compiler; PKG_CONFIG_PATH: the folder of tessera.pc.
set -eu
mkdir -p "$2"
libdir=$(pkg-config --variable=libdir tessera)
# Word splitting is what pkg-config's answers are made for.
# shellcheck disable=SC2046,SC2086
$CXX -std=c++20 -O1 -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror $(pkg-config --cflags 'tessera >= 0.1') \
  -c "$1/product.cc" -o "$2/product.o"
# shellcheck disable=SC2046,SC2086
$CXX "$2/product.o" $(pkg-config --libs tessera) -Wl,-rpath,"$libdir" -o "$2/product"
"$2/product" | diff "$1/product.txt" -
