module @jit_stack attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 8 : i32, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func @main(%arg0: tensor<4x1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg1: tensor<4x256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tp"}]>}, %arg2: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) {
    %0 = sdy.constant dense<0> : tensor<i32>
    %1 = sdy.reshard %arg1 <@mesh, [{}, {}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=256, k=1024}>} : tensor<4x256x1024xf32>
    %2 = sdy.reshard %arg0 <@mesh, [{}, {"tp"}, {}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=1024, k=256}>} : tensor<4x1024x256xf32>
    %3:2 = stablehlo.while(%iterArg = %0, %iterArg_0 = %arg2) : tensor<i32>, tensor<64x256xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"dp"}, {}]>]>}
    cond {
      %4 = sdy.constant dense<4> : tensor<i32>
      %5 = stablehlo.compare LT, %iterArg, %4 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %4 = sdy.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg, %4 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i32>
      %6 = sdy.constant dense<0> : tensor<i32>
      %7 = stablehlo.dynamic_slice %1, %iterArg, %6, %6, sizes = [1, 256, 1024] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=256, k=1024} need_replication={i} blocked_propagation={i}>} : (tensor<4x256x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x1024xf32>
      %8 = stablehlo.reshape %7 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([j, k]) {i=1, j=256, k=1024}>} : (tensor<1x256x1024xf32>) -> tensor<256x1024xf32>
      %9 = stablehlo.dot %iterArg_0, %8, precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=64, j=1024, k=256} reduction={k}>} : (tensor<64x256xf32>, tensor<256x1024xf32>) -> tensor<64x1024xf32>
      %10 = stablehlo.multiply %9, %9 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %11 = stablehlo.multiply %10, %9 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %12 = sdy.constant dense<4.471500e-02> : tensor<f32>
      %13 = stablehlo.broadcast_in_dim %12, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %14 = stablehlo.multiply %11, %13 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %15 = stablehlo.add %9, %14 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %16 = sdy.constant dense<0.797884583> : tensor<f32>
      %17 = stablehlo.broadcast_in_dim %16, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %18 = stablehlo.multiply %15, %17 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %19 = stablehlo.tanh %18 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %20 = sdy.constant dense<1.000000e+00> : tensor<f32>
      %21 = stablehlo.broadcast_in_dim %20, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %22 = stablehlo.add %19, %21 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %23 = sdy.constant dense<5.000000e-01> : tensor<f32>
      %24 = stablehlo.broadcast_in_dim %23, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %25 = stablehlo.multiply %22, %24 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %26 = stablehlo.multiply %9, %25 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %27 = sdy.reshard %26 <@mesh, [{"dp"}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %28 = stablehlo.dynamic_slice %2, %iterArg, %6, %6, sizes = [1, 1024, 256] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=1024, k=256} need_replication={i} blocked_propagation={i}>} : (tensor<4x1024x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1024x256xf32>
      %29 = stablehlo.reshape %28 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([j, k]) {i=1, j=1024, k=256}>} : (tensor<1x1024x256xf32>) -> tensor<1024x256xf32>
      %30 = stablehlo.dot %27, %29, precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=64, j=256, k=1024} reduction={k}>} : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
      %31 = stablehlo.add %iterArg_0, %30 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
      stablehlo.return %5, %31 : tensor<i32>, tensor<64x256xf32>
    }
    return %3#1 : tensor<64x256xf32>
  }
}
