#include "capture/value_table.h"

#include <algorithm>

namespace tessera {

std::shared_ptr<const void> ValueTable::owner_of(const DTensor& tensor) {
  const Array& local = tensor.local();
  if (local.is_null()) return tensor.impl();
  return local.storage();
}

bool ValueTable::shows(const View& view, const Array& array) {
  return view.offset == array.offset() && view.shape == array.shape() &&
         view.strides == array.strides();
}

ValueTable::Found ValueTable::find(const DTensor& tensor) const {
  const auto found = views_.find(owner_of(tensor).get());
  if (found == views_.end()) return {};
  const std::vector<View>& views = found->second;
  const Array& local = tensor.local();
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    if (view->spec != tensor.impl()->spec) continue;
    if (local.is_null() || shows(*view, local)) return {&view->name, &views.back().name};
  }
  return {nullptr, &views.back().name};
}

const std::string* ValueTable::find(const Array& array) const {
  if (array.is_null()) return nullptr;
  const auto found = views_.find(array.storage().get());
  if (found == views_.end()) return nullptr;
  const std::vector<View>& views = found->second;
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    if (shows(*view, array)) return &view->name;
  }
  return &views.back().name;
}

void ValueTable::add(const DTensor& tensor, const std::string& name) {
  const std::shared_ptr<const void> owner = owner_of(tensor);
  const auto [at, is_new] = views_.try_emplace(owner.get());
  if (is_new) owners_.push_back({owner, owner.get()});
  View view{.name = name, .spec = tensor.impl()->spec, .shape = {}, .strides = {}};
  if (!tensor.local().is_null()) {
    view.shape = tensor.local().shape();
    view.strides = tensor.local().strides();
    view.offset = tensor.local().offset();
  }
  at->second.push_back(std::move(view));
}

std::string ValueTable::unused_name(const std::string& wish) {
  if (names_.insert(wish).second) return wish;
  for (;;) {
    std::string name = wish + '.' + std::to_string(++numbers_[wish]);
    if (names_.insert(name).second) return name;
  }
}

std::vector<std::string> ValueTable::take_ended() {
  std::vector<std::string> ended;
  const auto has_gone = [&](const Owner& owner) {
    if (!owner.alive.expired()) return false;
    const auto found = views_.find(owner.key);
    for (View& view : found->second) ended.push_back(std::move(view.name));
    views_.erase(found);
    return true;
  };
  owners_.erase(std::remove_if(owners_.begin(), owners_.end(), has_gone), owners_.end());
  return ended;
}

}  // namespace tessera
