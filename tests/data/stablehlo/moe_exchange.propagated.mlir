module @jit_moe_exchange attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 8 : i32, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func @main(%arg0: tensor<8x256x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg1: tensor<128x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg2: tensor<8x128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg3: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}, {}]>}) -> (tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}, {}]>}) {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3) in_shardings=[<@mesh, [{"tp"}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}]>] out_shardings=[<@mesh, [{"dp", "tp"}, {}]>] manual_axes={"dp", "tp"} (%arg4: tensor<2x256x128xf32>, %arg5: tensor<128x8xf32>, %arg6: tensor<2x128x256xf32>, %arg7: tensor<16x128xf32>) {
      %1 = stablehlo.dot %arg7, %arg5, precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=16, j=8, k=128} reduction={k}>} : (tensor<16x128xf32>, tensor<128x8xf32>) -> tensor<16x8xf32>
      %2 = sdy.constant dense<0xFF800000> : tensor<f32>
      %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.maximum across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %4 = stablehlo.broadcast_in_dim %2, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i]) {i=16}>} : (tensor<f32>) -> tensor<16xf32>
      %5 = stablehlo.maximum %3, %4 {sdy.sharding_rule = #sdy.op_sharding_rule<([i], [i])->([i]) {i=16}>} : tensor<16xf32>
      %6 = stablehlo.reshape %5 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %8 = stablehlo.reshape %7 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %9 = stablehlo.broadcast_in_dim %8, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %10 = stablehlo.subtract %1, %9 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %11 = stablehlo.exponential %10 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %12 = sdy.constant dense<0.000000e+00> : tensor<f32>
      %13 = stablehlo.reduce(%11 init: %12) applies stablehlo.add across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %14 = stablehlo.reshape %13 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %16 = stablehlo.reshape %15 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %17 = stablehlo.broadcast_in_dim %16, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %18 = stablehlo.divide %11, %17 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %19 = stablehlo.iota dim = 0 : tensor<8xi32>
      %20 = stablehlo.broadcast_in_dim %19, dims = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([j])->([i, j]) {i=16, j=8}>} : (tensor<8xi32>) -> tensor<16x8xi32>
      %21 = sdy.constant dense<0> : tensor<i32>
      %22:2 = stablehlo.reduce(%18 init: %2), (%20 init: %21) across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j], [], [])->([i], [i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<16x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<16xf32>, tensor<16xi32>)
       reducer(%arg8: tensor<f32>, %arg10: tensor<f32>) (%arg9: tensor<i32>, %arg11: tensor<i32>)  {
        %76 = stablehlo.compare GT, %arg8, %arg10 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %77 = stablehlo.compare NE, %arg8, %arg8 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %78 = stablehlo.or %76, %77 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i1>
        %79 = stablehlo.select %78, %arg8, %arg10 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [], [])->([])>} : tensor<i1>, tensor<f32>
        %80 = stablehlo.compare EQ, %arg8, %arg10 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %81 = stablehlo.compare LT, %arg9, %arg11 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %82 = stablehlo.and %80, %81 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i1>
        %83 = stablehlo.or %78, %82 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i1>
        %84 = stablehlo.select %83, %arg9, %arg11 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [], [])->([])>} : tensor<i1>, tensor<i32>
        stablehlo.return %79, %84 : tensor<f32>, tensor<i32>
      }
      %23 = stablehlo.reshape %22#1 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xi32>) -> tensor<16x1xi32>
      %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xi32>) -> tensor<16x1xi32>
      %25 = stablehlo.reshape %24 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xi32>) -> tensor<16xi32>
      %26 = stablehlo.broadcast_in_dim %25, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xi32>) -> tensor<16x8xi32>
      %27 = stablehlo.iota dim = 0 : tensor<8xi32>
      %28 = stablehlo.reshape %27 {sdy.sharding_rule = #sdy.op_sharding_rule<([j])->([i, j]) {i=1, j=8}>} : (tensor<8xi32>) -> tensor<1x8xi32>
      %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=1, j=8}>} : (tensor<1x8xi32>) -> tensor<1x8xi32>
      %30 = stablehlo.reshape %29 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([j]) {i=1, j=8}>} : (tensor<1x8xi32>) -> tensor<8xi32>
      %31 = stablehlo.broadcast_in_dim %30, dims = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([j])->([i, j]) {i=16, j=8}>} : (tensor<8xi32>) -> tensor<16x8xi32>
      %32 = stablehlo.compare EQ, %26, %31 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xi32>, tensor<16x8xi32>) -> tensor<16x8xi1>
      %33 = stablehlo.convert %32 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xi1>) -> tensor<16x8xf32>
      %34 = "stablehlo.reduce_window"(%33, %12) <{base_dilations = array<i64: 1, 1>, padding = dense<[[15, 0], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 16, 1>, window_strides = array<i64: 1, 1>}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %76 = stablehlo.add %arg8, %arg9 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
        stablehlo.return %76 : tensor<f32>
      }) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i, j]) {i=16, j=8} permutation={i}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16x8xf32>
      %35 = stablehlo.multiply %34, %33 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %36 = sdy.constant dense<1.000000e+00> : tensor<f32>
      %37 = stablehlo.broadcast_in_dim %36, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=16, j=8}>} : (tensor<f32>) -> tensor<16x8xf32>
      %38 = stablehlo.subtract %35, %37 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %39 = stablehlo.convert %38 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xf32>) -> tensor<16x8xi32>
      %40 = stablehlo.reshape %39 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8xi32>) -> tensor<16x8x1xi32>
      %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8x1xi32>) -> tensor<16x8x1xi32>
      %42 = stablehlo.reshape %41 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j]) {i=16, j=8, k=1}>} : (tensor<16x8x1xi32>) -> tensor<16x8xi32>
      %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8xi32>) -> tensor<16x8x4xi32>
      %44 = stablehlo.iota dim = 0 : tensor<4xi32>
      %45 = stablehlo.reshape %44 {sdy.sharding_rule = #sdy.op_sharding_rule<([k])->([i, j, k]) {i=1, j=1, k=4}>} : (tensor<4xi32>) -> tensor<1x1x4xi32>
      %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=1, j=1, k=4}>} : (tensor<1x1x4xi32>) -> tensor<1x1x4xi32>
      %47 = stablehlo.reshape %46 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([k]) {i=1, j=1, k=4}>} : (tensor<1x1x4xi32>) -> tensor<4xi32>
      %48 = stablehlo.broadcast_in_dim %47, dims = [2] {sdy.sharding_rule = #sdy.op_sharding_rule<([k])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<4xi32>) -> tensor<16x8x4xi32>
      %49 = stablehlo.compare EQ, %43, %48 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8x4xi32>, tensor<16x8x4xi32>) -> tensor<16x8x4xi1>
      %50 = stablehlo.convert %49 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8x4xi1>) -> tensor<16x8x4xf32>
      %51 = stablehlo.reshape %33 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8xf32>) -> tensor<16x8x1xf32>
      %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8x1xf32>) -> tensor<16x8x1xf32>
      %53 = stablehlo.reshape %52 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j]) {i=16, j=8, k=1}>} : (tensor<16x8x1xf32>) -> tensor<16x8xf32>
      %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8xf32>) -> tensor<16x8x4xf32>
      %55 = stablehlo.multiply %50, %54 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=16, j=8, k=4}>} : tensor<16x8x4xf32>
      %56 = stablehlo.dot_general %55, %arg7, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([l, i, j], [l, k])->([i, j, k]) {i=8, j=4, k=128, l=16} reduction={l}>} : (tensor<16x8x4xf32>, tensor<16x128xf32>) -> tensor<8x4x128xf32>
      %57 = "stablehlo.all_to_all"(%56) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> {sdy.sharding_rule = #sdy.op_sharding_rule<([k, i, j])->([l, i, j]) {i=4, j=128, k=8, l=8} need_replication={k, l}>} : (tensor<8x4x128xf32>) -> tensor<8x4x128xf32>
      %58 = stablehlo.reshape %57 {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, k, l])->([i, j, k, l]) {i=4, j=2, k=4, l=128}>} : (tensor<8x4x128xf32>) -> tensor<4x2x4x128xf32>
      %59 = stablehlo.transpose %58, dims = [1, 0, 2, 3] {result_layout = dense<[3, 2, 0, 1]> : tensor<4xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i, k, l])->([i, j, k, l]) {i=2, j=4, k=4, l=128}>, xla_shape = "f32[2,4,4,128]{3,2,0,1}"} : (tensor<4x2x4x128xf32>) -> tensor<2x4x4x128xf32>
      %60 = stablehlo.reshape %59 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l])->([i, jk, l]) {i=2, j=4, k=4, l=128}>} : (tensor<2x4x4x128xf32>) -> tensor<2x16x128xf32>
      %61 = stablehlo.dot_general %60, %arg6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, l, k])->([i, j, k]) {i=2, j=16, k=256, l=128} reduction={l}>} : (tensor<2x16x128xf32>, tensor<2x128x256xf32>) -> tensor<2x16x256xf32>
      %62 = stablehlo.broadcast_in_dim %12, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=2, j=16, k=256}>} : (tensor<f32>) -> tensor<2x16x256xf32>
      %63 = stablehlo.maximum %61, %62 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=2, j=16, k=256}>} : tensor<2x16x256xf32>
      %64 = stablehlo.dot_general %63, %arg4, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, l, k])->([i, j, k]) {i=2, j=16, k=128, l=256} reduction={l}>} : (tensor<2x16x256xf32>, tensor<2x256x128xf32>) -> tensor<2x16x128xf32>
      %65 = "stablehlo.all_to_all"(%64) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k, j])->([i, l, j]) {i=2, j=128, k=16, l=16} need_replication={k, l}>} : (tensor<2x16x128xf32>) -> tensor<2x16x128xf32>
      %66 = stablehlo.reshape %65 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk, l])->([i, j, k, l]) {i=2, j=4, k=4, l=128}>} : (tensor<2x16x128xf32>) -> tensor<2x4x4x128xf32>
      %67 = stablehlo.transpose %66, dims = [1, 0, 2, 3] {result_layout = dense<[3, 2, 0, 1]> : tensor<4xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i, k, l])->([i, j, k, l]) {i=4, j=2, k=4, l=128}>, xla_shape = "f32[4,2,4,128]{3,2,0,1}"} : (tensor<2x4x4x128xf32>) -> tensor<4x2x4x128xf32>
      %68 = stablehlo.reshape %67 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l])->([ij, k, l]) {i=4, j=2, k=4, l=128}>} : (tensor<4x2x4x128xf32>) -> tensor<8x4x128xf32>
      %69 = stablehlo.dot_general %55, %68, contracting_dims = [2, 1] x [1, 0], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l, k], [l, k, j])->([i, j]) {i=16, j=128, k=4, l=8} reduction={k, l}>} : (tensor<16x8x4xf32>, tensor<8x4x128xf32>) -> tensor<16x128xf32>
      %70 = stablehlo.reduce(%18 init: %2) applies stablehlo.maximum across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %71 = stablehlo.reshape %70 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %73 = stablehlo.reshape %72 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %74 = stablehlo.broadcast_in_dim %73, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=128}>} : (tensor<16xf32>) -> tensor<16x128xf32>
      %75 = stablehlo.multiply %69, %74 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=128}>} : tensor<16x128xf32>
      sdy.return %75 : tensor<16x128xf32>
    } : (tensor<8x256x128xf32>, tensor<128x8xf32>, tensor<8x128x256xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    return %0 : tensor<128x128xf32>
  }
}
