#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SCOPE_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SCOPE_H_

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/syntax/syntax_tree.h"
#include "common/chat_template/values/value.h"

namespace muster {

// The names that a part of a template sees: its own, and those around it. A loop's round, a macro's
// call, and the blocks of set and generation each have one; what they set is gone after them.
class Scope {
 public:
  // `parent` may be null, and must outlive this.
  explicit Scope(const Scope* parent) : parent_(parent) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Returns null if nobody set it.
  const Value* Find(absl::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      const auto found = scope->values_.find(name);
      if (found != scope->values_.end()) return &found->second;
    }
    return nullptr;
  }

  // The name must outlive this.
  void Set(absl::string_view name, Value value) {
    values_.insert_or_assign(name, std::move(value));
  }

 private:
  const Scope* const parent_;
  absl::flat_hash_map<absl::string_view, Value> values_;
};

struct Macro {
  const Statement* statement = nullptr;
  // The macro is defined here. A macro cannot leave this scope, since only plain values can.
  const Scope* scope = nullptr;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SCOPE_H_
