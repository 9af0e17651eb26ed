#include "common/job_text/text_tree_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// About what a node takes in memory.
constexpr size_t kNodeWeight = 128;

}  // namespace

TextTreeBuilder::TextTreeBuilder(std::string origin, Repeats repeats)
    : origin_(std::move(origin)), repeats_(repeats) {}

bool TextTreeBuilder::BeginGroup(TextPosition position) {
  return Begin(TextNode::Kind::kGroup, position);
}

bool TextTreeBuilder::BeginList(TextPosition position) {
  return Begin(TextNode::Kind::kList, position);
}

bool TextTreeBuilder::Begin(TextNode::Kind kind, TextPosition position) {
  if (!Count(kNodeWeight, position)) return false;
  if (open_.size() == kMostTextDepth) {
    return Refuse(position, absl::StrCat("groups and lists are nested more than ", kMostTextDepth,
                                         " deep here; no field of a job is"));
  }
  Open& open = open_.emplace_back();
  open.node.kind = kind;
  open.node.position = position;
  open.node.names_repeat = repeats_ == Repeats::kAllowed;
  return true;
}

bool TextTreeBuilder::End() {
  if (!status_.ok()) return false;
  TextNode node = std::move(open_.back().node);
  open_.pop_back();
  // It and its parts were counted when they came.
  Attach(std::move(node));
  return true;
}

bool TextTreeBuilder::Name(std::string name, TextPosition position) {
  if (!Count(name.size(), position)) return false;
  Open& open = open_.back();
  const auto [first, is_new] = open.lines.emplace(name, position.line);
  if (!is_new && repeats_ == Repeats::kRefused) {
    return Refuse(position, absl::StrCat("\"", name, "\" was given in line ", first->second,
                                         " already; give it once"));
  }
  open.named = true;
  open.name = std::move(name);
  open.name_position = position;
  return true;
}

bool TextTreeBuilder::Add(TextNode node) {
  if (!Count(WeightOf(node), node.position)) return false;
  Attach(std::move(node));
  return true;
}

void TextTreeBuilder::Attach(TextNode node) {
  if (open_.empty()) {
    root_ = std::move(node);
    return;
  }
  Open& open = open_.back();
  if (open.node.kind == TextNode::Kind::kList) {
    open.node.items.push_back(std::move(node));
    return;
  }
  open.node.entries.push_back({std::move(open.name), open.name_position, std::move(node)});
  open.named = false;
}

bool TextTreeBuilder::Refuse(TextPosition position, absl::string_view message) {
  if (status_.ok()) status_ = TextError(origin_, position, message);
  return false;
}

bool TextTreeBuilder::ExpectsName() const {
  return !open_.empty() && open_.back().node.kind == TextNode::Kind::kGroup && !open_.back().named;
}

const TextNode& TextTreeBuilder::last() const {
  if (open_.empty()) return root_;
  const TextNode& parent = open_.back().node;
  return parent.kind == TextNode::Kind::kList ? parent.items.back() : parent.entries.back().node;
}

bool TextTreeBuilder::Count(size_t weight, TextPosition position) {
  if (!status_.ok()) return false;
  weight_ += weight;
  if (weight_ <= kMostTextWeight) return true;
  return Refuse(position, "the text up to here is far larger than any job; is it the right file?");
}

size_t WeightOf(const TextNode& node) {
  size_t weight = kNodeWeight + node.value.size();
  for (const TextNode& item : node.items) weight += WeightOf(item);
  for (const TextEntry& entry : node.entries) weight += entry.name.size() + WeightOf(entry.node);
  return weight;
}

}  // namespace muster
