#ifndef MUSTER_COMMON_JOB_TEXT_TEXT_TREE_BUILDER_H_
#define MUSTER_COMMON_JOB_TEXT_TEXT_TREE_BUILDER_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/job_text/text_node.h"

namespace muster {

// Far more than any job needs.
inline constexpr size_t kMostTextDepth = 64;
inline constexpr size_t kMostTextWeight = size_t{8} << 20;

// Builds the tree of a text from what a parser finds. Refuses a text that is too large or nested
// too deeply before the tree takes much memory. Every method except status and TakeRoot returns
// false once something was refused; the parser then gives up.
class TextTreeBuilder {
 public:
  // Says whether a name may occur twice in one group.
  enum class Repeats { kRefused, kAllowed };

  // `origin` names the text in errors.
  TextTreeBuilder(std::string origin, Repeats repeats);

  bool BeginGroup(TextPosition position);
  bool BeginList(TextPosition position);
  // Ends the innermost group or list.
  bool End();
  // Sets the name of what comes next. REQUIRES: the innermost open thing is a group.
  bool Name(std::string name, TextPosition position);
  // Adds a whole value, list or group.
  bool Add(TextNode node);
  // Counts the weight of what the parser keeps beside the tree.
  bool Count(size_t weight, TextPosition position);
  // Remembers the first error.
  bool Refuse(TextPosition position, absl::string_view message);

  // Returns true if a group is open and its next name is to come.
  bool ExpectsName() const;
  const absl::Status& status() const { return status_; }
  // Returns what was added last and is whole. REQUIRES: something was added, and nothing was
  // refused.
  const TextNode& last() const;
  // REQUIRES: every group and list has ended.
  TextNode TakeRoot() { return std::move(root_); }

 private:
  struct Open {
    TextNode node;
    // In a group: true if the name of what comes next was given.
    bool named = false;
    std::string name;
    TextPosition name_position;
    // In a group: the line where each name came first.
    absl::flat_hash_map<std::string, int> lines;
  };

  bool Begin(TextNode::Kind kind, TextPosition position);
  // Puts a whole value into the innermost open group or list.
  void Attach(TextNode node);

  const std::string origin_;
  const Repeats repeats_;
  absl::Status status_;
  std::vector<Open> open_;
  TextNode root_;
  size_t weight_ = 0;
};

// Returns a tree's weight for kMostTextWeight: its texts, and a constant for each node.
size_t WeightOf(const TextNode& node);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_TEXT_TREE_BUILDER_H_
