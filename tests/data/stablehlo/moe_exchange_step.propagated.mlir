module @jit_run attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 8 : i32, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func @main(%arg0: tensor<8x256x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg1: tensor<128x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg2: tensor<8x128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg3: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}, {}]>}, %arg4: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}, {}]>}) -> (tensor<f32>, tensor<8x256x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, tensor<128x8xf32>, tensor<8x128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}) {
    %0:13 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3) in_shardings=[<@mesh, [{"tp"}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}]>] out_shardings=[<@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>] manual_axes={"dp", "tp"} (%arg5: tensor<2x256x128xf32>, %arg6: tensor<128x8xf32>, %arg7: tensor<2x128x256xf32>, %arg8: tensor<16x128xf32>) {
      %24 = stablehlo.dot %arg8, %arg6, precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=16, j=8, k=128} reduction={k}>} : (tensor<16x128xf32>, tensor<128x8xf32>) -> tensor<16x8xf32>
      %25 = sdy.constant dense<0xFF800000> : tensor<f32>
      %26 = stablehlo.reduce(%24 init: %25) applies stablehlo.maximum across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %27 = stablehlo.broadcast_in_dim %25, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i]) {i=16}>} : (tensor<f32>) -> tensor<16xf32>
      %28 = stablehlo.maximum %26, %27 {sdy.sharding_rule = #sdy.op_sharding_rule<([i], [i])->([i]) {i=16}>} : tensor<16xf32>
      %29 = stablehlo.reshape %28 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %31 = stablehlo.reshape %30 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %32 = stablehlo.broadcast_in_dim %31, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %33 = stablehlo.subtract %24, %32 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %34 = stablehlo.exponential %33 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %35 = sdy.constant dense<0.000000e+00> : tensor<f32>
      %36 = stablehlo.reduce(%34 init: %35) applies stablehlo.add across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %37 = stablehlo.reshape %36 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %38 = sdy.constant dense<1.000000e+00> : tensor<f32>
      %39 = stablehlo.broadcast_in_dim %38, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=16, j=1}>} : (tensor<f32>) -> tensor<16x1xf32>
      %40 = stablehlo.multiply %37, %37 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=1}>} : tensor<16x1xf32>
      %41 = stablehlo.divide %39, %40 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=1}>} : tensor<16x1xf32>
      %42 = stablehlo.broadcast_in_dim %37, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %43 = stablehlo.reshape %42 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %44 = stablehlo.broadcast_in_dim %43, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %45 = stablehlo.divide %34, %44 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %46 = stablehlo.iota dim = 0 : tensor<8xi32>
      %47 = stablehlo.broadcast_in_dim %46, dims = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([j])->([i, j]) {i=16, j=8}>} : (tensor<8xi32>) -> tensor<16x8xi32>
      %48 = sdy.constant dense<0> : tensor<i32>
      %49:2 = stablehlo.reduce(%45 init: %25), (%47 init: %48) across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j], [], [])->([i], [i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<16x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<16xf32>, tensor<16xi32>)
       reducer(%arg9: tensor<f32>, %arg11: tensor<f32>) (%arg10: tensor<i32>, %arg12: tensor<i32>)  {
        %110 = stablehlo.compare GT, %arg9, %arg11 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %111 = stablehlo.compare NE, %arg9, %arg9 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %112 = stablehlo.or %110, %111 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i1>
        %113 = stablehlo.select %112, %arg9, %arg11 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [], [])->([])>} : tensor<i1>, tensor<f32>
        %114 = stablehlo.compare EQ, %arg9, %arg11 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %115 = stablehlo.compare LT, %arg10, %arg12 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %116 = stablehlo.and %114, %115 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i1>
        %117 = stablehlo.or %112, %116 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<i1>
        %118 = stablehlo.select %117, %arg10, %arg12 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [], [])->([])>} : tensor<i1>, tensor<i32>
        stablehlo.return %113, %118 : tensor<f32>, tensor<i32>
      }
      %50 = stablehlo.reshape %49#1 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xi32>) -> tensor<16x1xi32>
      %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xi32>) -> tensor<16x1xi32>
      %52 = stablehlo.reshape %51 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xi32>) -> tensor<16xi32>
      %53 = stablehlo.broadcast_in_dim %52, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xi32>) -> tensor<16x8xi32>
      %54 = stablehlo.iota dim = 0 : tensor<8xi32>
      %55 = stablehlo.reshape %54 {sdy.sharding_rule = #sdy.op_sharding_rule<([j])->([i, j]) {i=1, j=8}>} : (tensor<8xi32>) -> tensor<1x8xi32>
      %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=1, j=8}>} : (tensor<1x8xi32>) -> tensor<1x8xi32>
      %57 = stablehlo.reshape %56 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([j]) {i=1, j=8}>} : (tensor<1x8xi32>) -> tensor<8xi32>
      %58 = stablehlo.broadcast_in_dim %57, dims = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([j])->([i, j]) {i=16, j=8}>} : (tensor<8xi32>) -> tensor<16x8xi32>
      %59 = stablehlo.compare EQ, %53, %58 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xi32>, tensor<16x8xi32>) -> tensor<16x8xi1>
      %60 = stablehlo.convert %59 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xi1>) -> tensor<16x8xf32>
      %61 = "stablehlo.reduce_window"(%60, %35) <{base_dilations = array<i64: 1, 1>, padding = dense<[[15, 0], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 16, 1>, window_strides = array<i64: 1, 1>}> ({
      ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
        %110 = stablehlo.add %arg9, %arg10 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
        stablehlo.return %110 : tensor<f32>
      }) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i, j]) {i=16, j=8} permutation={i}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16x8xf32>
      %62 = stablehlo.multiply %61, %60 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %63 = stablehlo.broadcast_in_dim %38, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=16, j=8}>} : (tensor<f32>) -> tensor<16x8xf32>
      %64 = stablehlo.subtract %62, %63 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %65 = stablehlo.convert %64 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xf32>) -> tensor<16x8xi32>
      %66 = stablehlo.reshape %65 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8xi32>) -> tensor<16x8x1xi32>
      %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8x1xi32>) -> tensor<16x8x1xi32>
      %68 = stablehlo.reshape %67 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j]) {i=16, j=8, k=1}>} : (tensor<16x8x1xi32>) -> tensor<16x8xi32>
      %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8xi32>) -> tensor<16x8x4xi32>
      %70 = stablehlo.iota dim = 0 : tensor<4xi32>
      %71 = stablehlo.reshape %70 {sdy.sharding_rule = #sdy.op_sharding_rule<([k])->([i, j, k]) {i=1, j=1, k=4}>} : (tensor<4xi32>) -> tensor<1x1x4xi32>
      %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=1, j=1, k=4}>} : (tensor<1x1x4xi32>) -> tensor<1x1x4xi32>
      %73 = stablehlo.reshape %72 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([k]) {i=1, j=1, k=4}>} : (tensor<1x1x4xi32>) -> tensor<4xi32>
      %74 = stablehlo.broadcast_in_dim %73, dims = [2] {sdy.sharding_rule = #sdy.op_sharding_rule<([k])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<4xi32>) -> tensor<16x8x4xi32>
      %75 = stablehlo.compare EQ, %69, %74 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8x4xi32>, tensor<16x8x4xi32>) -> tensor<16x8x4xi1>
      %76 = stablehlo.convert %75 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8x4xi1>) -> tensor<16x8x4xf32>
      %77 = stablehlo.reshape %60 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8xf32>) -> tensor<16x8x1xf32>
      %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=16, j=8, k=1}>} : (tensor<16x8x1xf32>) -> tensor<16x8x1xf32>
      %79 = stablehlo.reshape %78 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j]) {i=16, j=8, k=1}>} : (tensor<16x8x1xf32>) -> tensor<16x8xf32>
      %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j, k]) {i=16, j=8, k=4}>} : (tensor<16x8xf32>) -> tensor<16x8x4xf32>
      %81 = stablehlo.multiply %76, %80 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=16, j=8, k=4}>} : tensor<16x8x4xf32>
      %82 = stablehlo.dot_general %81, %arg8, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([l, i, j], [l, k])->([i, j, k]) {i=8, j=4, k=128, l=16} reduction={l}>} : (tensor<16x8x4xf32>, tensor<16x128xf32>) -> tensor<8x4x128xf32>
      %83 = "stablehlo.all_to_all"(%82) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> {sdy.sharding_rule = #sdy.op_sharding_rule<([k, i, j])->([l, i, j]) {i=4, j=128, k=8, l=8} need_replication={k, l}>} : (tensor<8x4x128xf32>) -> tensor<8x4x128xf32>
      %84 = stablehlo.reshape %83 {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, k, l])->([i, j, k, l]) {i=4, j=2, k=4, l=128}>} : (tensor<8x4x128xf32>) -> tensor<4x2x4x128xf32>
      %85 = stablehlo.transpose %84, dims = [1, 0, 2, 3] {result_layout = dense<[3, 2, 0, 1]> : tensor<4xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i, k, l])->([i, j, k, l]) {i=2, j=4, k=4, l=128}>, xla_shape = "f32[2,4,4,128]{3,2,0,1}"} : (tensor<4x2x4x128xf32>) -> tensor<2x4x4x128xf32>
      %86 = stablehlo.reshape %85 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l])->([i, jk, l]) {i=2, j=4, k=4, l=128}>} : (tensor<2x4x4x128xf32>) -> tensor<2x16x128xf32>
      %87 = stablehlo.dot_general %86, %arg7, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, l, k])->([i, j, k]) {i=2, j=16, k=256, l=128} reduction={l}>} : (tensor<2x16x128xf32>, tensor<2x128x256xf32>) -> tensor<2x16x256xf32>
      %88 = stablehlo.broadcast_in_dim %35, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=2, j=16, k=256}>} : (tensor<f32>) -> tensor<2x16x256xf32>
      %89 = stablehlo.compare GT, %87, %88 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=2, j=16, k=256}>} : (tensor<2x16x256xf32>, tensor<2x16x256xf32>) -> tensor<2x16x256xi1>
      %90 = stablehlo.maximum %87, %88 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=2, j=16, k=256}>} : tensor<2x16x256xf32>
      %91 = stablehlo.reduce(%45 init: %25) applies stablehlo.maximum across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %92 = stablehlo.reshape %91 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %94 = stablehlo.reshape %93 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %95 = stablehlo.broadcast_in_dim %94, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %96 = stablehlo.compare EQ, %45, %95 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xi1>
      %97 = stablehlo.convert %96 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}>} : (tensor<16x8xi1>) -> tensor<16x8xf32>
      %98 = stablehlo.reduce(%97 init: %35) applies stablehlo.add across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %99 = stablehlo.reshape %91 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %100 = stablehlo.dot_general %90, %arg5, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, l, k])->([i, j, k]) {i=2, j=16, k=128, l=256} reduction={l}>} : (tensor<2x16x256xf32>, tensor<2x256x128xf32>) -> tensor<2x16x128xf32>
      %101 = "stablehlo.all_to_all"(%100) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k, j])->([i, l, j]) {i=2, j=128, k=16, l=16} need_replication={k, l}>} : (tensor<2x16x128xf32>) -> tensor<2x16x128xf32>
      %102 = stablehlo.reshape %101 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk, l])->([i, j, k, l]) {i=2, j=4, k=4, l=128}>} : (tensor<2x16x128xf32>) -> tensor<2x4x4x128xf32>
      %103 = stablehlo.transpose %102, dims = [1, 0, 2, 3] {result_layout = dense<[3, 2, 0, 1]> : tensor<4xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i, k, l])->([i, j, k, l]) {i=4, j=2, k=4, l=128}>, xla_shape = "f32[4,2,4,128]{3,2,0,1}"} : (tensor<2x4x4x128xf32>) -> tensor<4x2x4x128xf32>
      %104 = stablehlo.reshape %103 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l])->([ij, k, l]) {i=4, j=2, k=4, l=128}>} : (tensor<4x2x4x128xf32>) -> tensor<8x4x128xf32>
      %105 = stablehlo.dot_general %81, %104, contracting_dims = [2, 1] x [1, 0], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l, k], [l, k, j])->([i, j]) {i=16, j=128, k=4, l=8} reduction={k, l}>} : (tensor<16x8x4xf32>, tensor<8x4x128xf32>) -> tensor<16x128xf32>
      %106 = stablehlo.broadcast_in_dim %99, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %107 = stablehlo.reshape %106 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %108 = stablehlo.broadcast_in_dim %107, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=128}>} : (tensor<16xf32>) -> tensor<16x128xf32>
      %109 = stablehlo.multiply %105, %108 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=128}>} : tensor<16x128xf32>
      sdy.return %34, %37, %41, %86, %89, %arg5, %90, %81, %97, %98, %99, %105, %109 : tensor<16x8xf32>, tensor<16x1xf32>, tensor<16x1xf32>, tensor<2x16x128xf32>, tensor<2x16x256xi1>, tensor<2x256x128xf32>, tensor<2x16x256xf32>, tensor<16x8x4xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<16x128xf32>, tensor<16x128xf32>
    } : (tensor<8x256x128xf32>, tensor<128x8xf32>, tensor<8x128x256xf32>, tensor<128x128xf32>) -> (tensor<128x8xf32>, tensor<128x1xf32>, tensor<128x1xf32>, tensor<16x16x128xf32>, tensor<16x16x256xi1>, tensor<16x256x128xf32>, tensor<16x16x256xf32>, tensor<128x8x4xf32>, tensor<128x8xf32>, tensor<128xf32>, tensor<128x1xf32>, tensor<128x128xf32>, tensor<128x128xf32>)
    %1 = stablehlo.subtract %0#12, %arg4 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp", "tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=128, j=128}>} : tensor<128x128xf32>
    %2 = stablehlo.multiply %1, %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp", "tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=128, j=128}>} : tensor<128x128xf32>
    %3 = sdy.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%2 init: %3) applies stablehlo.add across dimensions = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([]) {i=128, j=128} reduction={i, j}>} : (tensor<128x128xf32>, tensor<f32>) -> tensor<f32>
    %5 = sdy.constant dense<1.638400e+04> : tensor<f32>
    %6 = stablehlo.divide %4, %5 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
    %7 = sdy.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp", "tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=128, j=128}>} : (tensor<f32>) -> tensor<128x128xf32>
    %9 = stablehlo.multiply %1, %8 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp", "tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=128, j=128}>} : tensor<128x128xf32>
    %10 = sdy.constant dense<6.10351563E-5> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp", "tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=128, j=128}>} : (tensor<f32>) -> tensor<128x128xf32>
    %12 = stablehlo.multiply %9, %11 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"dp", "tp"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=128, j=128}>} : tensor<128x128xf32>
    %13:3 = sdy.manual_computation(%12, %arg3, %0#0, %0#1, %0#2, %0#3, %0#4, %0#5, %0#6, %0#7, %0#8, %0#9, %0#10, %0#11) in_shardings=[<@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}, {}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}]>, <@mesh, [{"dp", "tp"}, {}]>, <@mesh, [{"dp", "tp"}, {}]>] out_shardings=[<@mesh, [{"tp"}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"tp"}, {}, {}]>] manual_axes={"dp", "tp"} (%arg5: tensor<16x128xf32>, %arg6: tensor<16x128xf32>, %arg7: tensor<16x8xf32>, %arg8: tensor<16x1xf32>, %arg9: tensor<16x1xf32>, %arg10: tensor<2x16x128xf32>, %arg11: tensor<2x16x256xi1>, %arg12: tensor<2x256x128xf32>, %arg13: tensor<2x16x256xf32>, %arg14: tensor<16x8x4xf32>, %arg15: tensor<16x8xf32>, %arg16: tensor<16xf32>, %arg17: tensor<16x1xf32>, %arg18: tensor<16x128xf32>) {
      %24 = stablehlo.broadcast_in_dim %arg17, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %25 = stablehlo.reshape %24 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %26 = stablehlo.broadcast_in_dim %25, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=128}>} : (tensor<16xf32>) -> tensor<16x128xf32>
      %27 = stablehlo.multiply %arg5, %26 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=128}>} : tensor<16x128xf32>
      %28 = stablehlo.dot_general %27, %arg14, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([l, i], [l, j, k])->([i, j, k]) {i=128, j=8, k=4, l=16} reduction={l}>} : (tensor<16x128xf32>, tensor<16x8x4xf32>) -> tensor<128x8x4xf32>
      %29 = stablehlo.transpose %28, dims = [1, 2, 0] {result_layout = dense<[1, 0, 2]> : tensor<3xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([k, i, j])->([i, j, k]) {i=8, j=4, k=128}>, xla_shape = "f32[8,4,128]{1,0,2}"} : (tensor<128x8x4xf32>) -> tensor<8x4x128xf32>
      %30 = "stablehlo.all_to_all"(%29) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> {result_layout = dense<[1, 0, 2]> : tensor<3xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([k, i, j])->([l, i, j]) {i=4, j=128, k=8, l=8} need_replication={k, l}>, xla_shape = "f32[8,4,128]{1,0,2}"} : (tensor<8x4x128xf32>) -> tensor<8x4x128xf32>
      %31 = stablehlo.reshape %30 {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, k, l])->([i, j, k, l]) {i=4, j=2, k=4, l=128}>} : (tensor<8x4x128xf32>) -> tensor<4x2x4x128xf32>
      %32 = stablehlo.transpose %31, dims = [1, 0, 2, 3] {result_layout = dense<[3, 2, 0, 1]> : tensor<4xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i, k, l])->([i, j, k, l]) {i=2, j=4, k=4, l=128}>, xla_shape = "f32[2,4,4,128]{3,2,0,1}"} : (tensor<4x2x4x128xf32>) -> tensor<2x4x4x128xf32>
      %33 = stablehlo.reshape %32 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l])->([i, jk, l]) {i=2, j=4, k=4, l=128}>} : (tensor<2x4x4x128xf32>) -> tensor<2x16x128xf32>
      %34 = stablehlo.dot_general %33, %arg13, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l, j], [i, l, k])->([i, j, k]) {i=2, j=128, k=256, l=16} reduction={l}>} : (tensor<2x16x128xf32>, tensor<2x16x256xf32>) -> tensor<2x128x256xf32>
      %35 = stablehlo.transpose %34, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k, j])->([i, j, k]) {i=2, j=256, k=128}>, xla_shape = "f32[2,256,128]{1,2,0}"} : (tensor<2x128x256xf32>) -> tensor<2x256x128xf32>
      %36 = "stablehlo.all_reduce"(%35) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
        %70 = stablehlo.add %arg19, %arg20 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
        stablehlo.return %70 : tensor<f32>
      }) {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=2, j=256, k=128}>, xla_shape = "f32[2,256,128]{1,2,0}"} : (tensor<2x256x128xf32>) -> tensor<2x256x128xf32>
      %37 = stablehlo.multiply %arg18, %arg5 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=128}>} : tensor<16x128xf32>
      %38 = sdy.constant dense<0.000000e+00> : tensor<f32>
      %39 = stablehlo.reduce(%37 init: %38) applies stablehlo.add across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=128} reduction={j}>} : (tensor<16x128xf32>, tensor<f32>) -> tensor<16xf32>
      %40 = stablehlo.reshape %39 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %41 = stablehlo.reduce(%40 init: %38) applies stablehlo.add across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=1} reduction={j}>} : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
      %42 = stablehlo.divide %41, %arg16 {sdy.sharding_rule = #sdy.op_sharding_rule<([i], [i])->([i]) {i=16}>} : tensor<16xf32>
      %43 = stablehlo.broadcast_in_dim %42, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %44 = stablehlo.multiply %43, %arg15 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %45 = stablehlo.broadcast_in_dim %arg8, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %46 = stablehlo.reshape %45 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %47 = stablehlo.broadcast_in_dim %46, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %48 = stablehlo.divide %44, %47 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %49 = stablehlo.broadcast_in_dim %arg9, dims = [0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16x1xf32>
      %50 = stablehlo.reshape %49 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=1}>} : (tensor<16x1xf32>) -> tensor<16xf32>
      %51 = stablehlo.broadcast_in_dim %50, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %52 = stablehlo.multiply %44, %51 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %53 = stablehlo.multiply %52, %arg7 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %54 = stablehlo.reduce(%53 init: %38) applies stablehlo.add across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=8} reduction={j}>} : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
      %55 = stablehlo.reshape %54 {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=1}>} : (tensor<16xf32>) -> tensor<16x1xf32>
      %56 = stablehlo.negate %55 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=1}>} : tensor<16x1xf32>
      %57 = stablehlo.reduce(%56 init: %38) applies stablehlo.add across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=16, j=1} reduction={j}>} : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
      %58 = stablehlo.broadcast_in_dim %57, dims = [0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=16, j=8}>} : (tensor<16xf32>) -> tensor<16x8xf32>
      %59 = stablehlo.add %48, %58 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %60 = stablehlo.multiply %59, %arg7 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=16, j=8}>} : tensor<16x8xf32>
      %61 = stablehlo.dot_general %60, %arg6, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([k, i], [k, j])->([i, j]) {i=8, j=128, k=16} reduction={k}>} : (tensor<16x8xf32>, tensor<16x128xf32>) -> tensor<8x128xf32>
      %62 = stablehlo.transpose %61, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([j, i])->([i, j]) {i=128, j=8}>, xla_shape = "f32[128,8]{0,1}"} : (tensor<8x128xf32>) -> tensor<128x8xf32>
      %63 = "stablehlo.all_reduce"(%62) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
      ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
        %70 = stablehlo.add %arg19, %arg20 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
        stablehlo.return %70 : tensor<f32>
      }) {result_layout = dense<[0, 1]> : tensor<2xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=128, j=8}>, xla_shape = "f32[128,8]{0,1}"} : (tensor<128x8xf32>) -> tensor<128x8xf32>
      %64 = stablehlo.dot_general %33, %arg12, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, k, l])->([i, j, k]) {i=2, j=16, k=256, l=128} reduction={l}>} : (tensor<2x16x128xf32>, tensor<2x256x128xf32>) -> tensor<2x16x256xf32>
      %65 = stablehlo.broadcast_in_dim %38, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=2, j=16, k=256}>} : (tensor<f32>) -> tensor<2x16x256xf32>
      %66 = stablehlo.select %arg11, %64, %65 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k], [i, j, k])->([i, j, k]) {i=2, j=16, k=256}>} : tensor<2x16x256xi1>, tensor<2x16x256xf32>
      %67 = stablehlo.dot_general %66, %arg10, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l, j], [i, l, k])->([i, j, k]) {i=2, j=256, k=128, l=16} reduction={l}>} : (tensor<2x16x256xf32>, tensor<2x16x128xf32>) -> tensor<2x256x128xf32>
      %68 = stablehlo.transpose %67, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, k, j])->([i, j, k]) {i=2, j=128, k=256}>, xla_shape = "f32[2,128,256]{1,2,0}"} : (tensor<2x256x128xf32>) -> tensor<2x128x256xf32>
      %69 = "stablehlo.all_reduce"(%68) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
        %70 = stablehlo.add %arg19, %arg20 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
        stablehlo.return %70 : tensor<f32>
      }) {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=2, j=128, k=256}>, xla_shape = "f32[2,128,256]{1,2,0}"} : (tensor<2x128x256xf32>) -> tensor<2x128x256xf32>
      sdy.return %36, %63, %69 : tensor<2x256x128xf32>, tensor<128x8xf32>, tensor<2x128x256xf32>
    } : (tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x8xf32>, tensor<128x1xf32>, tensor<128x1xf32>, tensor<16x16x128xf32>, tensor<16x16x256xi1>, tensor<16x256x128xf32>, tensor<16x16x256xf32>, tensor<128x8x4xf32>, tensor<128x8xf32>, tensor<128xf32>, tensor<128x1xf32>, tensor<128x128xf32>) -> (tensor<8x256x128xf32>, tensor<128x8xf32>, tensor<8x128x256xf32>)
    %14 = sdy.constant dense<1.000000e-01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=8, j=256, k=128}>} : (tensor<f32>) -> tensor<8x256x128xf32>
    %16 = stablehlo.multiply %13#0, %15 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=8, j=256, k=128}>} : tensor<8x256x128xf32>
    %17 = stablehlo.subtract %arg0, %16 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=8, j=256, k=128}>} : tensor<8x256x128xf32>
    %18 = stablehlo.broadcast_in_dim %14, dims = [] {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j]) {i=128, j=8}>} : (tensor<f32>) -> tensor<128x8xf32>
    %19 = stablehlo.multiply %13#1, %18 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=128, j=8}>} : tensor<128x8xf32>
    %20 = stablehlo.subtract %arg1, %19 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=128, j=8}>} : tensor<128x8xf32>
    %21 = stablehlo.broadcast_in_dim %14, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([])->([i, j, k]) {i=8, j=128, k=256}>} : (tensor<f32>) -> tensor<8x128x256xf32>
    %22 = stablehlo.multiply %13#2, %21 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=8, j=128, k=256}>} : tensor<8x128x256xf32>
    %23 = stablehlo.subtract %arg2, %22 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"tp"}, {}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=8, j=128, k=256}>} : tensor<8x128x256xf32>
    return %6, %17, %20, %23 : tensor<f32>, tensor<8x256x128xf32>, tensor<128x8xf32>, tensor<8x128x256xf32>
  }
}
