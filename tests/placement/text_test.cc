// Text forms of meshes, placements, levels, specs and dtypes, and the texts of what does not parse.
#include "placement/spec.h"
#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::mesh_of;

TEST_CASE("placements read back as they print", "[placement][text]") {
  for (const char* text :
       {"R", "S(0)", "S(-1)", "SS(0,2)", "SS(-2,1024)", "P(sum)", "P(avg)", "P(max)", "P(min)",
        "P(prod)", "S(0;3,0,5)", "S(-1;7)", "O(0)", "O(12)"}) {
    CHECK(to_string(value_or_throw(parse_placement(text))) == text);
  }
  CHECK(to_string(value_or_throw(parse_placement("_S(1, 4)"))) == "SS(1,4)");
  CHECK(to_string(value_or_throw(parse_placement(" P "))) == "P(sum)");
  for (const char* text : {"S(0), R", "(S(0), R)", "[S(0),R]", " ( S( 0 ) , R ) "}) {
    CHECK(to_string(value_or_throw(parse_placements(text))) == "(S(0), R)");
  }
  CHECK(value_or_throw(parse_placements("")).empty());
  CHECK(value_or_throw(parse_placements("()")).empty());
}

TEST_CASE("a placement that does not parse names the column", "[placement][text][errors]") {
  const std::string allowed =
      "; allowed are R, S(dim), S(dim;sizes), SS(dim,split_factor), O(coord), "
      "P(sum|avg|max|min|prod)";
  const auto error = [](const char* text) {
    return std::string(message_of(parse_placements(text).status()));
  };
  CHECK(error("S(0), X") ==
        "placement 'S(0), X', column 7: a placement expected, 'X' seen" + allowed);
  CHECK(error("S") == "placement 'S', column 2: '(' expected, the end seen" + allowed);
  CHECK(error("S(a)") == "placement 'S(a)', column 3: a dim expected, 'a)' seen" + allowed);
  CHECK(error("SS(0)") == "placement 'SS(0)', column 5: ',' expected, ')' seen" + allowed);
  CHECK(error("SS(0,0)") ==
        "placement 'SS(0,0)', column 6: a split factor of at least 1 expected, '0)' seen" +
            allowed);
  CHECK(error("P(mean)") ==
        "placement 'P(mean)', column 3: a reduction expected, 'mean)' seen" + allowed);
  CHECK(error("(R") == "placement '(R', column 3: ',' expected, the end seen" + allowed);
  CHECK(error("R R") == "placement 'R R', column 3: ',' expected, 'R' seen" + allowed);
  CHECK(error("R,") == "placement 'R,', column 3: a placement expected, the end seen" + allowed);
  CHECK(error("(R) R") == "placement '(R) R', column 5: the end expected, 'R' seen" + allowed);
  CHECK(error("S(99999999999)") ==
        "placement 'S(99999999999)', column 3: a dim expected, '99999999999)' seen" + allowed);
  CHECK(error("S(0;3,-1)") ==
        "placement 'S(0;3,-1)', column 7: a size of at least 0 expected, '-1)' seen" + allowed);
  CHECK(error("S(0;)") ==
        "placement 'S(0;)', column 5: a size of at least 0 expected, ')' seen" + allowed);
  CHECK(error("O(-1)") ==
        "placement 'O(-1)', column 3: a coord of at least 0 expected, '-1)' seen" + allowed);
  CHECK(error("O") == "placement 'O', column 2: '(' expected, the end seen" + allowed);
  CHECK_FALSE(parse_placement("R, R").ok());
}

TEST_CASE("levels read back as they print", "[placement][text]") {
  const Mesh named = mesh_of({2, 3}, {"dp", "tp"});
  for (const char* text : {"dp", "tp", "tp%3", "/4", "3*", "3*%4", "tp(3,0,5)"}) {
    CHECK(level_to_string(named, value_or_throw(parse_level(named, text))) == text);
  }
  CHECK(value_or_throw(parse_level(named, "1%3")) == Level::of_axis(1, 3));
  const Mesh unnamed = mesh_of({2, 3});
  for (const char* text : {"0", "1%3", "/1", "7*"}) {
    CHECK(level_to_string(unnamed, value_or_throw(parse_level(unnamed, text))) == text);
  }
  CHECK(to_string(named, Levels{Level::of_axis(0), Level::of_block(2), Level::of_axis(1, 3),
                                Level::of_run(4)}) == "[dp, 2*, tp%3, /4]");
  const std::string allowed =
      "; allowed are an axis (tp), an axis with a grain (tp%3), an axis with stated sizes "
      "(tp(3,0,5)), a run (/4), a block (3*), a block with a grain (3*%4)";
  const auto error = [&](const char* text) {
    return std::string(message_of(parse_level(named, text).status()));
  };
  CHECK(error("") == "level '', column 1: the text is empty" + allowed);
  CHECK(error("/0") == "level '/0', column 2: a whole number of at least 1 expected" + allowed);
  CHECK(error("x*") == "level 'x*', column 1: a whole number of at least 1 expected" + allowed);
  CHECK(error("tp%") == "level 'tp%', column 4: a whole number of at least 1 expected" + allowed);
  CHECK(error("ep") == "level 'ep', column 1: mesh {dp: 2, tp: 3} has no axis 'ep'" + allowed);
  CHECK(error("%3") == "level '%3', column 1: mesh {dp: 2, tp: 3} has no axis ''" + allowed);
}

TEST_CASE("a spec prints its placements, or its levels where there are none", "[placement][text]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const auto spec = [&](Shape shape, const char* placements) {
    return value_or_throw(Spec::make(mesh, std::move(shape), DType::kF32,
                                     value_or_throw(parse_placements(placements))));
  };
  CHECK(spec({8, 6}, "S(0), R").to_string() == "F32[8, 6] (S(0), R) on {dp: 2, tp: 2}");
  const Layout layout{{{Level::of_axis(0, 3)}, {}}, {std::nullopt, ReduceOp::kMax}};
  const Spec grained = value_or_throw(Spec::make(mesh, {8, 6}, DType::kBF16, layout));
  CHECK(grained.to_string() == "BF16[8, 6] ([dp%3], []; tp: P(max)) on {dp: 2, tp: 2}");
  CHECK(absl::IsInvalidArgument(grained.placements().status()));
  CHECK(Spec::plain({3}, DType::kI64).to_string() == "I64[3]");
  CHECK(Spec::plain({3}, DType::kI64).local_shape({}) == Shape{3});
}

TEST_CASE("specs are equal and hash alike where their placements mean the same", "[placement]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const auto spec = [&](const char* placements) {
    return value_or_throw(
        Spec::make(mesh, {4, 4}, DType::kF32, value_or_throw(parse_placements(placements))));
  };
  CHECK(spec("S(0), S(1)") == spec("S(-2), S(-1)"));
  CHECK(spec("S(0), S(1)").hash() == spec("SS(0,1), S(-1)").hash());
  CHECK(spec("S(0), S(1)") != spec("S(1), S(0)"));
  CHECK(spec("S(0), S(1)").hash() != spec("S(1), S(0)").hash());
  CHECK(spec("P, R").has_partial());
  CHECK_FALSE(spec("P, R").is_replicated());
  CHECK(spec("R, R").is_replicated());
  CHECK(spec("R, R").with_dtype(DType::kF64).global_bytes() == 128);
}

TEST_CASE("dtypes read back, promote and accumulate", "[placement][dtype]") {
  for (const char* name : {"F64", "F32", "BF16", "F16", "I64", "I32", "U8", "BOOL"}) {
    CHECK(name_of(value_or_throw(parse_dtype(name))) == name);
  }
  CHECK(message_of(parse_dtype("f32").status()) ==
        "dtype 'f32' is not known; allowed are F64, F32, BF16, F16, I64, I32, U8, BOOL");
  CHECK(promote(DType::kBF16, DType::kF32) == DType::kF32);
  CHECK(promote(DType::kI64, DType::kBF16) == DType::kBF16);
  CHECK(promote(DType::kF16, DType::kBF16) == DType::kF32);
  CHECK(promote(DType::kF16, DType::kI64) == DType::kF16);
  CHECK(promote(DType::kU8, DType::kI32) == DType::kI32);
  CHECK(promote(DType::kU8, DType::kBool) == DType::kU8);
  CHECK(accumulation_type(DType::kF16) == DType::kF32);
  CHECK(accumulation_type(DType::kU8) == DType::kI64);
  CHECK(accumulation_type(DType::kBF16) == DType::kF32);
  CHECK(accumulation_type(DType::kI32) == DType::kI64);
}
