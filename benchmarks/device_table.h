// benchmarks/device_table.h: a row of a benchmark's table: a floor and a figure of the same run,
// what the figure should be, and whose kernel ran.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace tessera::bench {

/// In which direction a figure is good.
enum class Good : std::uint8_t { kLow, kHigh };

struct TableRow {
  std::string what;
  std::string unit;
  double floor = 0.0;
  double figure = 0.0;
  double target = 0.0;  ///< 0: none is set
  Good good = Good::kLow;
  std::string by = "ours";  ///< a library's name, or "plain" where a library might have been
};

/// What is said of figures: whether they reach their targets, or only that there are some.
enum class Claim : std::uint8_t { kTargets, kNone };

inline const char* verdict_of(const TableRow& row, Claim claim) {
  if (claim == Claim::kNone) return "works";
  if (row.target == 0.0) return "measured";
  const bool reached = row.good == Good::kLow ? row.figure <= row.target : row.figure >= row.target;
  return reached ? "reached" : "missed";
}

inline void print_header() {
  std::printf("%-58s %-8s %10s %10s %12s %7s  %-8s %s\n", "", "unit", "floor", "figure", "target",
              "ratio", "by", "verdict");
}
inline void print_row(const TableRow& row, Claim claim) {
  char target[32] = "none";
  if (row.target != 0.0) {
    std::snprintf(target, sizeof target, "%s %.1f",
                  row.good == Good::kLow ? "<=" : ">=", row.target);
  }
  std::printf("%-58s %-8s %10.2f %10.2f %12s %7.2f  %-8s %s\n", row.what.c_str(), row.unit.c_str(),
              row.floor, row.figure, target, row.floor > 0 ? row.figure / row.floor : 0.0,
              row.by.c_str(), verdict_of(row, claim));
  std::fflush(stdout);
}

}  // namespace tessera::bench
