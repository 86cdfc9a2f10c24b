// program/export/module_borders.h: what the forward pass brings into each module, and out of it.
// Internal to program/export/.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/export/value_flow.h"

namespace tessera {

/// "layers.0.attn" holds itself and "layers.0.attn.wq"; "" holds all.
bool holds_module(const std::string& outer, const std::string& inner);

/// One value as one step reads it.
struct BorderRead {
  int root = 0;   ///< what it is, before redistributions
  int value = 0;  ///< as it is read
  std::string module;
  std::string op;
};

struct ModuleBorder {
  std::vector<int> in;        ///< roots on the mesh, in the order in which they are read
  bool has_others = false;    ///< plain values and buffers of other modules come in as well
  std::vector<int> out;       ///< roots that others read, or nobody
  std::set<std::string> ops;  ///< of its own steps, not of modules in it
};

class ModuleBorders {
 public:
  explicit ModuleBorders(const ValueFlow& flow);

  const std::map<std::string, ModuleBorder>& all() const noexcept { return borders_; }
  /// Of a value on the mesh that is no parameter or buffer.
  const std::vector<BorderRead>& reads_of(int root) const {
    return reads_[static_cast<std::size_t>(root)];
  }
  /// Of parameters, what transposes them looked through.
  struct ParameterRead {
    int parameter = 0;
    Layout layout;
  };
  const std::vector<ParameterRead>& parameter_reads() const noexcept { return parameter_reads_; }
  /// Whether it is made in the module or in one inside of it.
  bool is_made_in(int root, const std::string& module) const;
  /// The module whose own step makes it; "" for what is there before.
  const std::string& maker_module(int root) const;

 private:
  bool is_parameter(int index) const;
  /// The parameter that a value is, or is a transpose of; −1: none.
  int parameter_behind(int root) const;
  void add_step(std::int64_t number);
  void add_read(const BorderRead& read);
  void add_results();

  const ValueFlow& flow_;
  std::map<std::string, ModuleBorder> borders_;
  std::vector<std::vector<BorderRead>> reads_;  ///< by root
  std::vector<ParameterRead> parameter_reads_;
  std::vector<std::set<std::string>> readers_;  ///< modules, by root
};

}  // namespace tessera
