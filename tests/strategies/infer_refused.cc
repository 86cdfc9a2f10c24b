// What inference refuses before anything runs: operands that an op was not written for, gradients
// called by name with cotangents of no forward call, and shapes that no tensor could have.
#include <cmath>
#include <limits>

#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using Catch::Contains;
using testing::call_op;
using testing::call_values;
using testing::reals;
using testing::refusal_of;
using Values = std::vector<double>;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TensorMeta f64(Shape shape) { return {std::move(shape), DType::kF64}; }
TensorMeta i64(Shape shape) { return {std::move(shape), DType::kI64}; }

}  // namespace

TEST_CASE("gradients called by name check the dims of their operands", "[strategies][infer]") {
  CHECK(refusal_of("linear_input_grad", {f64({}), f64({2, 2})}) ==
        "linear_input_grad: grad has 0 dims; its rule takes at least 1. [rule *n, nk -> *k | n:sum "
        "| lin A*B; grad F64[], weight F64[2, 2]]");
  CHECK_THAT(refusal_of("linear_weight_grad", {f64({}), f64({2})}),
             Contains("linear_weight_grad: a has 0 dims"));
  CHECK_THAT(refusal_of("embedding_grad", {f64({}), i64({})}, {{"num_embeddings", 2}}),
             Contains("embedding_grad: grad has 0 dims"));
  CHECK_THAT(
      refusal_of("avg_pool2d_grad", {f64({1})},
                 {{"kernel_size", Shape{2, 2}}, {"stride", Shape{1}}, {"input_size", Shape{7, 8}}}),
      Contains("avg_pool2d_grad: grad has 1 dim;"));
  CHECK_THAT(refusal_of("adaptive_avg_pool1d_grad", {f64({})},
                        {{"output_size", Shape{7}}, {"input_size", Shape{9}}}),
             Contains("adaptive_avg_pool1d_grad: grad has 0 dims"));
  CHECK_THAT(refusal_of("conv1d_input_grad", {f64({}), f64({1, 1, 2})}, {{"input_size", Shape{4}}}),
             Contains("conv1d_input_grad: grad has 0 dims"));
  CHECK_THAT(refusal_of("conv2d_weight_grad", {f64({}), f64({1, 1, 2, 2})},
                        {{"kernel_size", Shape{2, 2}}}),
             Contains("conv2d_weight_grad: grad has 0 dims"));
}

TEST_CASE("a cotangent has the shape that the forward call gives", "[strategies][infer]") {
  CHECK_THAT(
      refusal_of("conv1d_input_grad", {f64({1, 1, 9}), f64({1, 1, 2})}, {{"input_size", Shape{4}}}),
      Contains("the cotangent has shape [1, 1, 9], but of [1, 1, 4] the result is "
               "[1, 1, 3]"));
  CHECK_THAT(refusal_of("conv1d_input_grad", {f64({1, 1, 3}), f64({1, 1, 2})},
                        {{"input_size", Shape{4, 4}}}),
             Contains("conv1d_input_grad: input [1, 1, 4, 4]"));
  CHECK_THAT(refusal_of("max_pool1d_grad", {f64({1, 4}), f64({1, 9})},
                        {{"kernel_size", Shape{3}}, {"grad_size", Shape{4}}}),
             Contains("of [1, 9] the result is [1, 3]"));
  CHECK_THAT(refusal_of("constant_pad_nd_grad", {f64({7})},
                        {{"pad", Shape{1, 1}}, {"input_size", Shape{6}}}),
             Contains("of [6] the result is [8]"));
  CHECK_THAT(refusal_of("softmax_grad", {f64({8, 6}), f64({8, 1})}, {{"dim", 1}}),
             Contains("result has shape [8, 1], grad [8, 6]; they must be of one shape"));
  CHECK_THAT(refusal_of("index_select_grad", {f64({8, 6}), i64({7})}, {{"dim", 0}, {"size", 9}}),
             Contains("index_select_grad: index [7], but grad [8, 6]"));
  CHECK_THAT(refusal_of("embedding_grad", {f64({2, 8, 3}), i64({8})}, {{"num_embeddings", 5}}),
             Contains("grad must have a row for each index"));
  CHECK_THAT(refusal_of("rms_norm_grad", {f64({8, 6}), f64({8, 6}), f64({6}), f64({6})}),
             Contains("rstd [6], but an input [8, 6] has results [8, 6] and [8]"));
  CHECK_THAT(refusal_of("trace_grad", {f64({})}, {{"size", Shape{3}}}),
             Contains("trace_grad: size is [3], but must be that of a matrix"));
}

TEST_CASE("products, convolutions and norms refuse dtypes before the run, by op and operand",
          "[strategies][infer]") {
  CHECK(refusal_of("matmul", {i64({1, 1}), f64({1, 1})}) ==
        "matmul: factors I64 and F64, result F64: the factors must be of one floating dtype, and "
        "the result of it, or F32 for BF16 and F16; cast with `to` first. [self I64[1, 1], other "
        "F64[1, 1]]");
  CHECK_THAT(refusal_of("conv1d", {i64({1, 1, 4}), i64({1, 1, 2}), {.absent = true}}),
             Contains("conv1d: input is I64; it takes a floating dtype: cast with `to` first"));
  CHECK_THAT(refusal_of("conv1d", {f64({1, 1, 4}), {{1, 1, 2}, DType::kF32}, {.absent = true}}),
             Contains("conv1d: weight is F32, input F64; they must be of one dtype"));
  CHECK_THAT(refusal_of("rms_norm", {{{2, 4}, DType::kBool}, f64({4})}),
             Contains("rms_norm: input is BOOL; it takes a floating dtype"));
  CHECK_THAT(refusal_of("layer_norm", {f64({2, 4}), i64({4}), {.absent = true}}),
             Contains("layer_norm: weight is I64; it takes a floating dtype"));
  CHECK(refusal_of("matmul", {{{2, 3}, DType::kBF16}, {{3, 4}, DType::kBF16}}).empty());
}

TEST_CASE("a 0-d tensor is a line of one element along dim 0 or -1", "[strategies][infer]") {
  const Array x = reals({}, {2.5});
  for (const std::int64_t dim : {-1, 0}) {
    const Attrs along = {{"dim", dim}};
    CHECK(call_values("softmax", {x}, along) == Values{1});
    CHECK(call_values("softmin", {x}, along) == Values{1});
    CHECK(call_values("log_softmax", {x}, along) == Values{0});
    CHECK(call_values("softmax_grad", {x, reals({}, {1})}, along) == Values{0});
    CHECK(call_values("log_softmax_grad", {x, reals({}, {0})}, along) == Values{0});
    CHECK(call_values("cumsum", {x}, along) == Values{2.5});
    CHECK(call_values("cumprod", {x}, along) == Values{2.5});
    CHECK(call_values("logcumsumexp", {x}, along) == Values{2.5});
    CHECK(call_values("argsort", {x}, along) == Values{0});
    for (const std::string name : {"sort", "cummax", "cummin", "max_dim", "median_dim", "mode"}) {
      const std::vector<Array> both = call_op(name, {x}, along);
      CAPTURE(name);
      CHECK(both[0].shape().empty());
      CHECK(both[0].to_vector() == Values{2.5});
      CHECK(both[1].to_vector() == Values{0});
    }
    CHECK(call_values("topk", {x}, {{"k", 1}, {"dim", dim}}) == Values{2.5});
    CHECK(call_values("flip", {x}, {{"dims", Shape{dim}}}) == Values{2.5});
    CHECK(call_values("gather", {x, testing::ints({}, {0})}, along) == Values{2.5});
  }
  CHECK_THAT(refusal_of("softmax", {f64({})}, {{"dim", 1}}),
             Contains("softmax: dim names dim 1 of self, which has 0 dims"));
  CHECK_THAT(refusal_of("topk", {f64({})}, {{"k", 0}}),
             Contains("a 0-d tensor is a line of one element"));
}

TEST_CASE("nextafter takes every floating dtype, and no other", "[strategies][infer]") {
  CHECK(call_values("nextafter", {reals({1}, {1}, DType::kBF16), reals({1}, {2}, DType::kBF16)}) ==
        Values{1.0078125});
  CHECK(call_values("nextafter", {reals({1}, {1}, DType::kF16), reals({1}, {0}, DType::kF16)}) ==
        Values{1 - 0x1p-11});
  CHECK(call_values("nextafter", {reals({1}, {-0.75}, DType::kF32), reals({}, {1})}) ==
        Values{-0.7499999403953552});
  CHECK_THAT(refusal_of("nextafter", {i64({1}), i64({1})}),
             Contains("nextafter: dtype I64 where a floating type is needed"));
}

TEST_CASE("no shape wraps: what would is refused by name", "[strategies][infer][overflow]") {
  const std::string beyond = " exceeds 2^62 bytes";
  CHECK(refusal_of("repeat", {f64({4})}, {{"repeats", Shape{4611686018427387905}}}) ==
        "repeat: a result: a tensor of shape [9223372036854775807] and dtype F64 exceeds 2^62 "
        "bytes. [self F64[4]]");
  CHECK_THAT(refusal_of("tile", {f64({4})}, {{"dims", Shape{4611686018427387905}}}),
             Contains("tile: a result") && Contains(beyond));
  CHECK_THAT(refusal_of("repeat_interleave", {f64({4})}, {{"dim", 0}, {"repeats", kMost}}),
             Contains(beyond));
  CHECK_THAT(refusal_of("constant_pad_nd", {f64({4})}, {{"pad", Shape{1LL << 62, 1LL << 62}}}),
             Contains(beyond));
  CHECK_THAT(refusal_of("constant_pad_nd", {f64({4})}, {{"pad", Shape{kMost, 1}}}),
             Contains("constant_pad_nd: pad is"));
  CHECK_THAT(refusal_of("constant_pad_nd", {f64({4})}, {{"pad", Shape{kLeast, 1}}}),
             Contains("constant_pad_nd: pad is"));
  CHECK_THAT(refusal_of("conv1d", {f64({1, 1, 4}), f64({1, 1, 2}), {.absent = true}},
                        {{"dilation", Shape{kMost}}}),
             Contains("conv1d: dilation is"));
  CHECK_THAT(refusal_of("conv_transpose1d", {f64({1, 1, 4}), f64({1, 1, 2}), {.absent = true}},
                        {{"stride", Shape{kMost}}}),
             Contains("conv_transpose1d: stride is"));
  CHECK_THAT(
      refusal_of("conv1d", {f64({1, 2, 4}), f64({1, 2, 2}), {.absent = true}}, {{"groups", kMost}}),
      Contains("conv1d: input [1, 2, 4] and weight"));
  CHECK_THAT(refusal_of("max_pool1d", {f64({1, 4})}, {{"kernel_size", Shape{kLeast}}}),
             Contains("max_pool1d: kernel_size is"));
  CHECK_THAT(refusal_of("narrow", {f64({4})}, {{"dim", 0}, {"start", 1}, {"length", kMost}}),
             Contains("narrow: start 1, length 9223372036854775807 leave dim 0"));
  CHECK_THAT(refusal_of("view", {f64({4})}, {{"size", Shape{2, 1LL << 33, 1LL << 31}}}),
             Contains("view: sizes [2, 8589934592, 2147483648] do not hold 4 elements"));
  CHECK_THAT(refusal_of("kron", {f64({1LL << 30, 1}), f64({1LL << 31, 1})}), Contains(beyond));
  CHECK_THAT(refusal_of("cartesian_prod", {f64({1LL << 32}), f64({1LL << 32})}), Contains("2^6"));
  CHECK_THAT(refusal_of("cat", {f64({1LL << 58}), f64({1LL << 58}), f64({1LL << 58})}),
             Contains(beyond));
  CHECK_THAT(refusal_of("new_zeros", {f64({4})}, {{"size", Shape{1LL << 40, 1LL << 40}}}),
             Contains("new_zeros: a result: shape"));
  CHECK_THAT(refusal_of("expand", {f64({1})}, {{"size", Shape{kMost}}}), Contains(beyond));
  CHECK_THAT(refusal_of("diag_embed", {f64({4})}, {{"offset", 1LL << 62}}), Contains("2^6"));
  CHECK_THAT(refusal_of("one_hot", {i64({4})}, {{"num_classes", kMost}}),
             Contains("must be 1 to 4611686018427387904"));
  CHECK_THAT(refusal_of("one_hot", {i64({4})}, {{"num_classes", kMost / 2}}), Contains("2^6"));
  CHECK_THAT(refusal_of("one_hot", {i64({0})}, {{"num_classes", std::int64_t{0}}}),
             Contains("must be 1 to"));
  CHECK_THAT(refusal_of("upsample_nearest1d", {f64({1, 1, 4})}, {{"output_size", Shape{kMost}}}),
             Contains("upsample_nearest1d: output_size is"));
  // Dims of no element do not hide what stands beside them.
  CHECK_THAT(refusal_of("new_zeros", {f64({4})}, {{"size", Shape{0, 1LL << 62, 1LL << 62}}}),
             Contains(beyond));
}

TEST_CASE("an attribute that asks for ever so many results is refused at once",
          "[strategies][infer][overflow]") {
  CHECK_THAT(refusal_of("tensor_split", {f64({8})}, {{"sections", 1LL << 60}}),
             Contains("tensor_split: 1152921504606846976 results; at most 65536 are allowed"));
  CHECK_THAT(refusal_of("split", {f64({1LL << 40})}, {{"split_size", 1}}),
             Contains("split: 1099511627776 results"));
  CHECK_THAT(refusal_of("unbind", {f64({1LL << 40})}), Contains("unbind: 1099511627776 results"));
  CHECK(refusal_of("chunk", {f64({8})}, {{"chunks", kMost}}).empty());  // 8 of them
  CHECK_THAT(refusal_of("repeat", {f64({4})}, {{"repeats", Shape(100, 1)}}),
             Contains("repeat: a result: shape has 100 dims; at most 64 are allowed"));
}

TEST_CASE("an integer that a double would round is no double", "[strategies][infer]") {
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  CHECK(refusal_of("add_scalar", {i64({1})}, {{"value", odd}}) ==
        "add_scalar: attribute value=9007199254740993 must be a double");
  CHECK(refusal_of("add_scalar", {i64({1})}, {{"value", odd - 1}}).empty());
}

TEST_CASE("route_topk says which operand does not fit its logits", "[strategies][infer]") {
  const Attrs two = {{"k", 2}};
  const TensorMeta logits = f64({8, 6}), none = {.absent = true};
  CHECK(refusal_of("route_topk", {logits, f64({6}), i64({8, 2})}, two) == "");
  CHECK_THAT(refusal_of("route_topk", {logits, none, none}, {{"k", 7}}),
             Contains("route_topk: k is 7, but the 6 experts of [8, 6] allow 0 to 6"));
  CHECK_THAT(refusal_of("route_topk", {logits, none, none}, {{"k", -1}}),
             Contains("route_topk: k is [-1]"));
  CHECK_THAT(refusal_of("route_topk", {logits, none, none}, {{"k", 2}, {"score", "relu"}}),
             Contains("score 'relu'; allowed: softmax, sigmoid, sqrt_softplus"));
  CHECK_THAT(refusal_of("route_topk", {logits, f64({5}), none}, two),
             Contains("bias [5], but the 6 experts of [8, 6] take [6]"));
  CHECK_THAT(refusal_of("route_topk", {logits, none, i64({8, 3})}, two),
             Contains("ids I64[8, 3], but 2 experts of each row of [8, 6] are I64[8, 2]"));
  CHECK_THAT(refusal_of("route_topk", {i64({8, 6}), none, none}, two), Contains("route_topk"));
  CHECK_THAT(refusal_of("route_topk", {f64({}), none, none}, two), Contains("route_topk"));
}

}  // namespace tessera
