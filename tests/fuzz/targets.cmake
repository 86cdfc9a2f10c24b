# Fuzz targets, by name: NAME_fuzz.cc, corpus/NAME. On one line, which ./test --deep reads.
set(TESSERA_FUZZ_TARGETS json layout placement plan rule program whole_program stablehlo spec safetensors control recorder signature manifest call flags)
