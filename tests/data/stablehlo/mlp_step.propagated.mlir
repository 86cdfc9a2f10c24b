module @jit_run attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 8 : i32, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func @main(%arg0: tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg1: tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg2: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg3: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<f32>, tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}) {
    %0 = stablehlo.dot %arg2, %arg1, precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=64, j=1024, k=256} reduction={k}>} : (tensor<64x256xf32>, tensor<256x1024xf32>) -> tensor<64x1024xf32>
    %1 = stablehlo.multiply %0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %2 = stablehlo.multiply %1, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %3 = sdy.constant dense<4.471500e-02> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
    %5 = stablehlo.multiply %2, %4 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %6 = stablehlo.add %0, %5 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %7 = sdy.constant dense<0.797884583> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
    %9 = stablehlo.multiply %6, %8 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %10 = stablehlo.tanh %9 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %11 = sdy.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
    %13 = stablehlo.add %10, %12 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %14 = sdy.constant dense<5.000000e-01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
    %16 = stablehlo.multiply %13, %15 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %17 = stablehlo.multiply %0, %16 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %18 = sdy.reshard %17 <@mesh, [{"dp"}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %19 = stablehlo.dot %18, %arg0, precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=64, j=256, k=1024} reduction={k}>} : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
    %20 = stablehlo.subtract %19, %arg3 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %21 = stablehlo.multiply %20, %20 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %22 = sdy.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.reduce(%21 init: %22) applies stablehlo.add across dimensions = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([]) {i=64, j=256} reduction={i, j}>} : (tensor<64x256xf32>, tensor<f32>) -> tensor<f32>
    %24 = sdy.constant dense<1.638400e+04> : tensor<f32>
    %25 = stablehlo.divide %23, %24 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
    %26 = sdy.constant dense<2.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=256}>} : (tensor<f32>) -> tensor<64x256xf32>
    %28 = stablehlo.multiply %20, %27 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %29 = sdy.constant dense<6.10351563E-5> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=256}>} : (tensor<f32>) -> tensor<64x256xf32>
    %31 = stablehlo.multiply %28, %30 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %32 = stablehlo.dot_general %31, %18, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([k, i], [k, j])->([i, j]) {i=256, j=1024, k=64} reduction={k}>} : (tensor<64x256xf32>, tensor<64x1024xf32>) -> tensor<256x1024xf32>
    %33 = stablehlo.transpose %32, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i])->([i, j]) {i=1024, j=256}>, xla_shape = "f32[1024,256]{0,1}"} : (tensor<256x1024xf32>) -> tensor<1024x256xf32>
    %34 = sdy.constant dense<1.000000e-01> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=1024, j=256}>} : (tensor<f32>) -> tensor<1024x256xf32>
    %36 = stablehlo.multiply %33, %35 {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=1024, j=256}>, xla_shape = "f32[1024,256]{0,1}"} : tensor<1024x256xf32>
    %37 = stablehlo.subtract %arg0, %36 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=1024, j=256}>} : tensor<1024x256xf32>
    %38 = stablehlo.dot_general %31, %arg0, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [j, k])->([i, j]) {i=64, j=1024, k=256} reduction={k}>} : (tensor<64x256xf32>, tensor<1024x256xf32>) -> tensor<64x1024xf32>
    %39 = sdy.reshard %38 <@mesh, [{"dp"}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %40 = stablehlo.multiply %39, %16 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %41 = stablehlo.multiply %0, %39 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %42 = stablehlo.multiply %41, %15 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %43 = stablehlo.subtract %12, %10 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %44 = stablehlo.multiply %42, %43 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %45 = stablehlo.multiply %44, %10 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %46 = stablehlo.add %44, %45 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %47 = stablehlo.multiply %46, %8 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %48 = stablehlo.add %40, %47 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %49 = stablehlo.multiply %47, %4 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %50 = stablehlo.multiply %0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %51 = sdy.constant dense<3.000000e+00> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
    %53 = stablehlo.multiply %50, %52 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %54 = stablehlo.multiply %49, %53 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %55 = stablehlo.add %48, %54 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
    %56 = stablehlo.dot_general %55, %arg2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([k, i], [k, j])->([i, j]) {i=1024, j=256, k=64} reduction={k}>} : (tensor<64x1024xf32>, tensor<64x256xf32>) -> tensor<1024x256xf32>
    %57 = stablehlo.transpose %56, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i])->([i, j]) {i=256, j=1024}>, xla_shape = "f32[256,1024]{0,1}"} : (tensor<1024x256xf32>) -> tensor<256x1024xf32>
    %58 = stablehlo.broadcast_in_dim %34, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=256, j=1024}>} : (tensor<f32>) -> tensor<256x1024xf32>
    %59 = stablehlo.multiply %57, %58 {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=256, j=1024}>, xla_shape = "f32[256,1024]{0,1}"} : tensor<256x1024xf32>
    %60 = stablehlo.subtract %arg1, %59 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=256, j=1024}>} : tensor<256x1024xf32>
    return %25, %37, %60 : tensor<f32>, tensor<1024x256xf32>, tensor<256x1024xf32>
  }
}
