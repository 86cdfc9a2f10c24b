// The attributes of a call: what a reader asks for by a name that is not there is a defect, said
// with the name and what there is.
#include "strategies/rules/attrs.h"

namespace tessera {
namespace {

/// "" where nothing is thrown.
template <class Read>
std::string thrown(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    CHECK(absl::IsInternal(error.status()));
    return error.what();
  }
  return "";
}

TEST_CASE("attributes are read as the types that they hold exactly", "[strategies][attrs]") {
  const Attrs attrs = {{"dim", 1},
                       {"keepdim", true},
                       {"eps", 0.5},
                       {"size", Shape{3}},
                       {"dims", Shape{0, -1}},
                       {"dtype", DType::kI64},
                       {"mode", std::string("ij")}};
  CHECK(attrs.get_int("dim") == 1);
  CHECK(attrs.get_int("size") == 3);
  CHECK(attrs.get_ints("dim") == Shape{1});
  CHECK(attrs.get_ints("dims") == Shape{0, -1});
  CHECK(attrs.get_double("dim") == 1.0);
  CHECK(attrs.get_double("keepdim") == 1.0);
  CHECK(attrs.get_double("eps") == 0.5);
  CHECK(attrs.get_bool("keepdim"));
  CHECK(attrs.get_dtype("dtype") == DType::kI64);
  CHECK(attrs.get_string("mode") == "ij");
}

TEST_CASE("a mistyped name of an attribute is a defect that names it and what there is",
          "[strategies][attrs]") {
  const Attrs attrs = {{"dim", 1}, {"keepdim", true}};
  CHECK(thrown([&] { (void)attrs.get_int("dmi"); }) ==
        "attribute 'dmi' is read as an int, but the call has dim=1, keepdim=true");
  CHECK(thrown([&] { (void)attrs.get_double("eps"); }) ==
        "attribute 'eps' is read as a double, but the call has dim=1, keepdim=true");
  CHECK(thrown([&] { (void)Attrs().get_ints("size"); }) ==
        "attribute 'size' is read as ints, but the call has none");
  CHECK(thrown([&] { (void)Attrs().get_bool("keepdim"); }) != "");
  CHECK(thrown([&] { (void)Attrs().get_dtype("dtype"); }) != "");
  CHECK(thrown([&] { (void)Attrs().get_string("mode"); }) != "");
}

TEST_CASE("an attribute of another type is a defect, never a default", "[strategies][attrs]") {
  const Attrs attrs = {{"dim", 0.5}, {"dims", Shape{0, 1}}, {"keepdim", 1}};
  CHECK(thrown([&] { (void)attrs.get_int("dim"); }) ==
        "attribute 'dim' is read as an int, but the call has dim=0.5, dims=[0, 1], keepdim=1");
  CHECK(thrown([&] { (void)attrs.get_int("dims"); }) != "");
  CHECK(thrown([&] { (void)attrs.get_bool("keepdim"); }) != "");
  CHECK(thrown([&] { (void)attrs.get_int_or("dim", 3); }) != "");
}

TEST_CASE("a name that may be missing is read with what it means then", "[strategies][attrs]") {
  const Attrs attrs = {{"count", 4}, {"posinf", std::monostate{}}};
  CHECK(attrs.get_int_or("count", 7) == 4);
  CHECK(attrs.get_int_or("step", 1) == 1);
  CHECK(attrs.get_double_or("posinf", 2.5) == 2.5);
  CHECK(attrs.get_bool_or("keepdim", true));
  CHECK(attrs.get_ints_or("dim", {}).empty());
  CHECK(attrs.get_dtype_or("dtype", DType::kF16) == DType::kF16);
}

}  // namespace
}  // namespace tessera
