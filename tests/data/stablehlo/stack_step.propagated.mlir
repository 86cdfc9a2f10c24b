module @jit_run attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 8 : i32, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func @main(%arg0: tensor<4x1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg1: tensor<4x256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tp"}]>}, %arg2: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg3: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<f32>, tensor<4x1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, tensor<4x256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tp"}]>}) {
    %0 = sdy.constant dense<0> : tensor<i32>
    %1 = sdy.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=4, j=64, k=256}>} : (tensor<f32>) -> tensor<4x64x256xf32>
    %3 = sdy.reshard %arg1 <@mesh, [{}, {}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=256, k=1024}>} : tensor<4x256x1024xf32>
    %4 = sdy.reshard %arg0 <@mesh, [{}, {"tp"}, {}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=1024, k=256}>} : tensor<4x1024x256xf32>
    %5:3 = stablehlo.while(%iterArg = %0, %iterArg_0 = %arg2, %iterArg_1 = %2) : tensor<i32>, tensor<64x256xf32>, tensor<4x64x256xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"dp"}, {}]>, <@mesh, [{}, {"dp"}, {}]>]>}
    cond {
      %29 = sdy.constant dense<4> : tensor<i32>
      %30 = stablehlo.compare LT, %iterArg, %29 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %30 : tensor<i1>
    } do {
      %29 = sdy.constant dense<1> : tensor<i32>
      %30 = stablehlo.add %iterArg, %29 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i32>
      %31 = sdy.constant dense<0> : tensor<i32>
      %32 = stablehlo.dynamic_slice %3, %iterArg, %31, %31, sizes = [1, 256, 1024] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=256, k=1024} need_replication={i} blocked_propagation={i}>} : (tensor<4x256x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x1024xf32>
      %33 = stablehlo.reshape %32 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([j, k]) {i=1, j=256, k=1024}>} : (tensor<1x256x1024xf32>) -> tensor<256x1024xf32>
      %34 = stablehlo.dot %iterArg_0, %33, precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=64, j=1024, k=256} reduction={k}>} : (tensor<64x256xf32>, tensor<256x1024xf32>) -> tensor<64x1024xf32>
      %35 = stablehlo.multiply %34, %34 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %36 = stablehlo.multiply %35, %34 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %37 = sdy.constant dense<4.471500e-02> : tensor<f32>
      %38 = stablehlo.broadcast_in_dim %37, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %39 = stablehlo.multiply %36, %38 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %40 = stablehlo.add %34, %39 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %41 = sdy.constant dense<0.797884583> : tensor<f32>
      %42 = stablehlo.broadcast_in_dim %41, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %43 = stablehlo.multiply %40, %42 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %44 = stablehlo.tanh %43 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %45 = sdy.constant dense<1.000000e+00> : tensor<f32>
      %46 = stablehlo.broadcast_in_dim %45, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %47 = stablehlo.add %44, %46 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %48 = sdy.constant dense<5.000000e-01> : tensor<f32>
      %49 = stablehlo.broadcast_in_dim %48, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %50 = stablehlo.multiply %47, %49 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %51 = stablehlo.multiply %34, %50 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %52 = sdy.reshard %51 <@mesh, [{"dp"}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %53 = stablehlo.dynamic_slice %4, %iterArg, %31, %31, sizes = [1, 1024, 256] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=1024, k=256} need_replication={i} blocked_propagation={i}>} : (tensor<4x1024x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1024x256xf32>
      %54 = stablehlo.reshape %53 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([j, k]) {i=1, j=1024, k=256}>} : (tensor<1x1024x256xf32>) -> tensor<1024x256xf32>
      %55 = stablehlo.dot %52, %54, precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=64, j=256, k=1024} reduction={k}>} : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
      %56 = stablehlo.add %iterArg_0, %55 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
      %57 = stablehlo.reshape %iterArg_0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, k])->([i, j, k]) {i=1, j=64, k=256}>} : (tensor<64x256xf32>) -> tensor<1x64x256xf32>
      %58 = stablehlo.dynamic_update_slice %iterArg_1, %57, %iterArg, %31, %31 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k, l], [j, k, l], [], [], [])->([i, k, l]) {i=4, j=1, k=64, l=256} need_replication={j}>} : (tensor<4x64x256xf32>, tensor<1x64x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x64x256xf32>
      stablehlo.return %30, %56, %58 : tensor<i32>, tensor<64x256xf32>, tensor<4x64x256xf32>
    }
    %6 = stablehlo.subtract %5#1, %arg3 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %7 = stablehlo.multiply %6, %6 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %8 = stablehlo.reduce(%7 init: %1) applies stablehlo.add across dimensions = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([]) {i=64, j=256} reduction={i, j}>} : (tensor<64x256xf32>, tensor<f32>) -> tensor<f32>
    %9 = sdy.constant dense<1.638400e+04> : tensor<f32>
    %10 = stablehlo.divide %8, %9 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
    %11 = sdy.constant dense<2.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=256}>} : (tensor<f32>) -> tensor<64x256xf32>
    %13 = stablehlo.multiply %6, %12 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %14 = sdy.constant dense<6.10351563E-5> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=256}>} : (tensor<f32>) -> tensor<64x256xf32>
    %16 = stablehlo.multiply %13, %15 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
    %17 = stablehlo.broadcast_in_dim %1, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=4, j=1024, k=256}>} : (tensor<f32>) -> tensor<4x1024x256xf32>
    %18 = stablehlo.broadcast_in_dim %1, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=4, j=256, k=1024}>} : (tensor<f32>) -> tensor<4x256x1024xf32>
    %19 = sdy.reshard %arg0 <@mesh, [{}, {"tp"}, {}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=1024, k=256}>} : tensor<4x1024x256xf32>
    %20 = sdy.reshard %arg1 <@mesh, [{}, {}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=256, k=1024}>} : tensor<4x256x1024xf32>
    %21:4 = stablehlo.while(%iterArg = %0, %iterArg_0 = %16, %iterArg_1 = %17, %iterArg_2 = %18) : tensor<i32>, tensor<64x256xf32>, tensor<4x1024x256xf32>, tensor<4x256x1024xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"dp"}, {}]>, <@mesh, [{}, {"tp"}, {}]>, <@mesh, [{}, {}, {"tp"}]>]>}
    cond {
      %29 = sdy.constant dense<4> : tensor<i32>
      %30 = stablehlo.compare LT, %iterArg, %29 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %30 : tensor<i1>
    } do {
      %29 = sdy.constant dense<1> : tensor<i32>
      %30 = stablehlo.add %iterArg, %29 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i32>
      %31 = sdy.constant dense<4> : tensor<i32>
      %32 = stablehlo.subtract %31, %iterArg {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i32>
      %33 = stablehlo.subtract %32, %29 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i32>
      %34 = sdy.constant dense<0> : tensor<i32>
      %35 = stablehlo.dynamic_slice %5#2, %33, %34, %34, sizes = [1, 64, 256] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=64, k=256} need_replication={i} blocked_propagation={i}>} : (tensor<4x64x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x256xf32>
      %36 = stablehlo.reshape %35 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([j, k]) {i=1, j=64, k=256}>} : (tensor<1x64x256xf32>) -> tensor<64x256xf32>
      %37 = stablehlo.dynamic_slice %19, %33, %34, %34, sizes = [1, 1024, 256] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=1024, k=256} need_replication={i} blocked_propagation={i}>} : (tensor<4x1024x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1024x256xf32>
      %38 = stablehlo.reshape %37 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([j, k]) {i=1, j=1024, k=256}>} : (tensor<1x1024x256xf32>) -> tensor<1024x256xf32>
      %39 = stablehlo.dynamic_slice %20, %33, %34, %34, sizes = [1, 256, 1024] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=256, k=1024} need_replication={i} blocked_propagation={i}>} : (tensor<4x256x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x1024xf32>
      %40 = stablehlo.reshape %39 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([j, k]) {i=1, j=256, k=1024}>} : (tensor<1x256x1024xf32>) -> tensor<256x1024xf32>
      %41:4 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>, <@mesh, [{"tp"}, {}]>, <@mesh, [{}, {"tp"}]>, <@mesh, [{"dp"}, {}]>]>} %36, %38, %40, %iterArg_0 : tensor<64x256xf32>, tensor<1024x256xf32>, tensor<256x1024xf32>, tensor<64x256xf32>
      %42 = stablehlo.dot_general %41#3, %41#1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [j, k])->([i, j]) {i=64, j=1024, k=256} reduction={k}>} : (tensor<64x256xf32>, tensor<1024x256xf32>) -> tensor<64x1024xf32>
      %43 = sdy.reshard %42 <@mesh, [{"dp"}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %44 = stablehlo.dot %41#0, %41#2, precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=64, j=1024, k=256} reduction={k}>} : (tensor<64x256xf32>, tensor<256x1024xf32>) -> tensor<64x1024xf32>
      %45 = stablehlo.multiply %44, %44 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %46 = stablehlo.multiply %45, %44 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %47 = sdy.constant dense<4.471500e-02> : tensor<f32>
      %48 = stablehlo.broadcast_in_dim %47, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %49 = stablehlo.multiply %46, %48 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %50 = stablehlo.add %44, %49 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %51 = sdy.constant dense<0.797884583> : tensor<f32>
      %52 = stablehlo.broadcast_in_dim %51, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %53 = stablehlo.multiply %50, %52 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %54 = stablehlo.tanh %53 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %55 = sdy.constant dense<1.000000e+00> : tensor<f32>
      %56 = stablehlo.broadcast_in_dim %55, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %57 = stablehlo.add %54, %56 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %58 = sdy.constant dense<5.000000e-01> : tensor<f32>
      %59 = stablehlo.broadcast_in_dim %58, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %60 = stablehlo.multiply %57, %59 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %61 = stablehlo.multiply %43, %60 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %62 = stablehlo.multiply %44, %43 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %63 = stablehlo.multiply %62, %59 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %64 = stablehlo.subtract %56, %54 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %65 = stablehlo.multiply %63, %64 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %66 = stablehlo.multiply %65, %54 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %67 = stablehlo.add %65, %66 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %68 = stablehlo.multiply %67, %52 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %69 = stablehlo.add %61, %68 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %70 = stablehlo.multiply %68, %48 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %71 = stablehlo.multiply %44, %44 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %72 = sdy.constant dense<3.000000e+00> : tensor<f32>
      %73 = stablehlo.broadcast_in_dim %72, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=64, j=1024}>} : (tensor<f32>) -> tensor<64x1024xf32>
      %74 = stablehlo.multiply %71, %73 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %75 = stablehlo.multiply %70, %74 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %76 = stablehlo.add %69, %75 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %77 = stablehlo.dot_general %76, %41#2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [j, k])->([i, j]) {i=64, j=256, k=1024} reduction={k}>} : (tensor<64x1024xf32>, tensor<256x1024xf32>) -> tensor<64x256xf32>
      %78 = stablehlo.add %41#3, %77 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=256}>} : tensor<64x256xf32>
      %79 = stablehlo.multiply %44, %60 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp"}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %80 = sdy.reshard %79 <@mesh, [{"dp"}, {"tp"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=64, j=1024}>} : tensor<64x1024xf32>
      %81 = stablehlo.dot_general %41#3, %80, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([k, i], [k, j])->([i, j]) {i=256, j=1024, k=64} reduction={k}>} : (tensor<64x256xf32>, tensor<64x1024xf32>) -> tensor<256x1024xf32>
      %82 = stablehlo.transpose %81, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i])->([i, j]) {i=1024, j=256}>, xla_shape = "f32[1024,256]{0,1}"} : (tensor<256x1024xf32>) -> tensor<1024x256xf32>
      %83 = stablehlo.dot_general %76, %41#0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([k, i], [k, j])->([i, j]) {i=1024, j=256, k=64} reduction={k}>} : (tensor<64x1024xf32>, tensor<64x256xf32>) -> tensor<1024x256xf32>
      %84 = stablehlo.transpose %83, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i])->([i, j]) {i=256, j=1024}>, xla_shape = "f32[256,1024]{0,1}"} : (tensor<1024x256xf32>) -> tensor<256x1024xf32>
      %85 = stablehlo.reshape %82 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, k])->([i, j, k]) {i=1, j=1024, k=256}>} : (tensor<1024x256xf32>) -> tensor<1x1024x256xf32>
      %86 = stablehlo.dynamic_update_slice %iterArg_1, %85, %33, %34, %34 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k, l], [j, k, l], [], [], [])->([i, k, l]) {i=4, j=1, k=1024, l=256} need_replication={j}>} : (tensor<4x1024x256xf32>, tensor<1x1024x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x1024x256xf32>
      %87 = stablehlo.reshape %84 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, k])->([i, j, k]) {i=1, j=256, k=1024}>} : (tensor<256x1024xf32>) -> tensor<1x256x1024xf32>
      %88 = stablehlo.dynamic_update_slice %iterArg_2, %87, %33, %34, %34 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k, l], [j, k, l], [], [], [])->([i, k, l]) {i=4, j=1, k=256, l=1024} need_replication={j}>} : (tensor<4x256x1024xf32>, tensor<1x256x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x256x1024xf32>
      stablehlo.return %30, %78, %86, %88 : tensor<i32>, tensor<64x256xf32>, tensor<4x1024x256xf32>, tensor<4x256x1024xf32>
    }
    %22 = sdy.constant dense<1.000000e-01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=4, j=1024, k=256}>} : (tensor<f32>) -> tensor<4x1024x256xf32>
    %24 = stablehlo.multiply %21#2, %23 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=4, j=1024, k=256}>} : tensor<4x1024x256xf32>
    %25 = stablehlo.subtract %arg0, %24 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=4, j=1024, k=256}>} : tensor<4x1024x256xf32>
    %26 = stablehlo.broadcast_in_dim %22, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=4, j=256, k=1024}>} : (tensor<f32>) -> tensor<4x256x1024xf32>
    %27 = stablehlo.multiply %21#3, %26 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=4, j=256, k=1024}>} : tensor<4x256x1024xf32>
    %28 = stablehlo.subtract %arg1, %27 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"tp"}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=4, j=256, k=1024}>} : tensor<4x256x1024xf32>
    return %10, %25, %28 : tensor<f32>, tensor<4x1024x256xf32>, tensor<4x256x1024xf32>
  }
}
