#include "placement/printable.h"

namespace tessera {

TEST_CASE("what is printable stays as it is", "[placement][printable]") {
  for (const std::string text : {"", "no such file: \"weights.safetensors\"", "größer als 2⁶²",
                                 "\t専門家 9 of 8", "🙂 ~"}) {
    CHECK(printable(text) == text);
  }
}

TEST_CASE("no text moves the cursor, changes colours or reads backwards",
          "[placement][printable]") {
  CHECK(printable("a\x1b[31mred\x1b[0m") == "a\\x1b[31mred\\x1b[0m");
  CHECK(printable("one\ntwo\r\x07\x7f") == "one two\\x0d\\x07\\x7f");
  CHECK(printable("\u009b2J") == "\\x9b2J");                    // CSI as one character
  CHECK(printable("abc\u202etxt.exe") == "abc\\u202etxt.exe");  // right to left from here on
  CHECK(printable("\u2028\u2066\u200f") == "\\u2028\\u2066\\u200f");
  CHECK(printable(std::string("\0", 1)) == "\\x00");
}

TEST_CASE("an answer keeps its lines, each as harmless as one alone", "[placement][printable]") {
  CHECK(printable_lines("one\n\ttwo\x1b[2J\r\n\u202ethree\n") ==
        "one\n\ttwo\\x1b[2J\\x0d\n\\u202ethree\n");
  const std::string long_answer(100'000, 'x');
  CHECK(printable_lines(long_answer) == long_answer);
}

TEST_CASE("bytes that are no UTF-8 are shown one by one", "[placement][printable]") {
  CHECK(printable("\xff\xfe") == "\\xff\\xfe");
  CHECK(printable("\xc0\x9b") == "\\xc0\\x9b");           // an overlong escape character
  CHECK(printable("\xe2\x80") == "\\xe2\\x80");           // cut off
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(printable("\xf5\x80\x80\x80") == "\\xf5\\x80\\x80\\x80");
}

TEST_CASE("a long text keeps its beginning and its end", "[placement][printable]") {
  const std::string text = "begin " + std::string(100'000, 'x') + " end";
  const std::string shown = printable(text, 100);
  CHECK(shown.size() == 100 + std::string("…").size());
  CHECK(shown.starts_with("begin x"));
  CHECK(shown.ends_with("x end"));
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ü";
  CHECK(printable(umlauts, 101).find('\\') == std::string::npos);  // cut between characters
}

}  // namespace tessera
