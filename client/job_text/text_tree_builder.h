#ifndef MUSTER_CLIENT_JOB_TEXT_TEXT_TREE_BUILDER_H_
#define MUSTER_CLIENT_JOB_TEXT_TEXT_TREE_BUILDER_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "client/job_text/text_node.h"

namespace muster {

// Far more than any job has.
inline constexpr size_t kMostTextDepth = 64;
inline constexpr size_t kMostTextWeight = size_t{8} << 20;

// Makes the tree of a text out of what a parser finds one after another. A text that is too large
// or lies too deep in itself is refused before the tree takes much memory. Every method but status
// and TakeRoot returns false once something was refused; the parser then gives up.
class TextTreeBuilder {
 public:
  // Whether a name may come twice in one group.
  enum class Repeats { kRefused, kAllowed };

  // `origin` names the text in errors.
  TextTreeBuilder(std::string origin, Repeats repeats);

  bool BeginGroup(TextPosition position);
  bool BeginList(TextPosition position);
  // Ends the innermost group or list.
  bool End();
  // The name of what comes next. REQUIRES: within a group.
  bool Name(std::string name, TextPosition position);
  // A whole value, list or group.
  bool Add(TextNode node);
  // Counts what is kept beside the tree.
  bool Count(size_t weight, TextPosition position);
  // Remembers the first error.
  bool Refuse(TextPosition position, absl::string_view message);

  // Whether a group is open whose next name is to come.
  bool ExpectsName() const;
  const absl::Status& status() const { return status_; }
  // What was added last, and is whole. REQUIRES: something was, and nothing was refused.
  const TextNode& last() const;
  // REQUIRES: all that began has ended.
  TextNode TakeRoot() { return std::move(root_); }

 private:
  struct Open {
    TextNode node;
    // Of a group: the name of what comes next, if it was given.
    bool named = false;
    std::string name;
    TextPosition name_position;
    // Of a group: where each name came first.
    absl::flat_hash_map<std::string, int> lines;
  };

  bool Begin(TextNode::Kind kind, TextPosition position);
  // Puts a whole value into what is open.
  void Attach(TextNode node);

  const std::string origin_;
  const Repeats repeats_;
  absl::Status status_;
  std::vector<Open> open_;
  TextNode root_;
  size_t weight_ = 0;
};

// What a tree counts for in kMostTextWeight: its texts and something for each node.
size_t WeightOf(const TextNode& node);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_TEXT_TEXT_TREE_BUILDER_H_
