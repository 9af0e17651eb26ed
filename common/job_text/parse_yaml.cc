#include "common/job_text/parse_yaml.h"

#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job_text/text_tree_builder.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace muster {
namespace {

TextPosition PositionOf(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// The library's events make the tree. It goes on after an error, so each checks for one.
class YamlEvents final : public YAML::EventHandler {
 public:
  explicit YamlEvents(const std::string& origin)
      : builder_(origin, TextTreeBuilder::Repeats::kRefused) {}

  TextTreeBuilder& builder() { return builder_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (builder_.ExpectsName()) {
      builder_.Refuse(PositionOf(mark), "expected the name of a field");
      return;
    }
    TextNode node;
    node.position = PositionOf(mark);
    if (builder_.Add(std::move(node))) Keep(anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto kept = kept_.find(anchor);
    if (builder_.ExpectsName() || kept == kept_.end()) {
      builder_.Refuse(PositionOf(mark),
                      "an alias has to stand for a whole value that came before it");
      return;
    }
    TextNode node = kept->second;
    node.position = PositionOf(mark);
    builder_.Add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!TakeTag(mark, tag)) return;
    if (builder_.ExpectsName()) {
      if (value == "<<") {
        builder_.Refuse(PositionOf(mark),
                        "merge keys are not supported; write the group's fields out");
        return;
      }
      builder_.Name(value, PositionOf(mark));
      return;
    }
    TextNode node;
    node.kind = TextNode::Kind::kValue;
    node.position = PositionOf(mark);
    node.value = value;
    node.may_be_text = true;
    if (builder_.Add(std::move(node))) Keep(anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (!TakeTag(mark, tag) || !TakeWhole(mark)) return;
    if (builder_.BeginList(PositionOf(mark))) open_.push_back(anchor);
  }
  void OnSequenceEnd() override { End(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (!TakeTag(mark, tag) || !TakeWhole(mark)) return;
    if (builder_.BeginGroup(PositionOf(mark))) open_.push_back(anchor);
  }
  void OnMapEnd() override { End(); }

 private:
  // YAML's own tags say no more than the field does that the value is for.
  bool TakeTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!" || absl::StartsWith(tag, "tag:yaml.org,2002:")) {
      return builder_.status().ok();
    }
    return builder_.Refuse(PositionOf(mark), absl::StrCat("the tag ", tag, " is not supported"));
  }

  bool TakeWhole(const YAML::Mark& mark) {
    if (!builder_.ExpectsName()) return true;
    return builder_.Refuse(PositionOf(mark), "expected the name of a field, not a list or group");
  }

  void End() {
    if (!builder_.status().ok()) return;
    const YAML::anchor_t anchor = open_.back();
    open_.pop_back();
    if (builder_.End()) Keep(anchor);
  }

  // Values kept for aliases count like values of the text, since anchors within anchors are kept
  // many times.
  void Keep(YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    const TextNode& node = builder_.last();
    if (builder_.Count(WeightOf(node), node.position)) kept_[anchor] = node;
  }

  TextTreeBuilder builder_;
  // Anchors of the open lists and groups.
  std::vector<YAML::anchor_t> open_;
  std::map<YAML::anchor_t, TextNode> kept_;
};

}  // namespace

absl::StatusOr<TextNode> ParseYaml(const std::string& text, const std::string& origin) {
  std::istringstream stream(text);
  YamlEvents events(origin);
  TextTreeBuilder& builder = events.builder();
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(events);
    YamlEvents more(origin);
    if (builder.status().ok() && parser.HandleNextDocument(more)) {
      builder.Refuse({}, "the file has several documents, but may hold only one job");
    }
  } catch (const YAML::Exception& error) {
    builder.Refuse(PositionOf(error.mark), absl::StrCat("this is not YAML: ", error.msg));
  }
  if (!builder.status().ok()) return builder.status();
  return builder.TakeRoot();
}

}  // namespace muster
