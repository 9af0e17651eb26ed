#include "common/job_text/fill_message.h"

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job_text/parse_yaml.h"
#include "common/job_text/store_value.h"
#include "common/text/did_you_mean.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

// Most characters of a value to show in an error.
constexpr size_t kMostShown = 80;

std::string Shown(absl::string_view value) {
  return value.size() <= kMostShown ? std::string(value)
                                    : absl::StrCat(value.substr(0, kMostShown), "…");
}

const FieldDescriptor* FindField(const Descriptor& type, const std::string& name) {
  const FieldDescriptor* const field = type.FindFieldByName(name);
  return field != nullptr ? field : type.FindFieldByCamelcaseName(name);
}

// Appends the paths of all fields of this name below a message.
void AddPathsBelow(const Descriptor& type, const std::string& name, const std::string& path,
                   int depth, std::vector<std::string>& paths) {
  constexpr int kDeepest = 4;
  for (int i = 0; i < type.field_count() && depth < kDeepest; ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string below = absl::StrCat(path, path.empty() ? "" : ".", field.name());
    if (field.name() == name) paths.push_back(below);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map()) continue;
    AddPathsBelow(*field.message_type(), name, below, depth + 1, paths);
  }
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string FieldList(const Descriptor& type) {
  const std::vector<std::string> names = FieldNames(type);
  return names.empty() ? "it has none at all" : absl::StrCat("it has ", absl::StrJoin(names, ", "));
}

// `path` leads to the message; empty: it is the whole job.
std::string UnknownField(const Descriptor& type, const std::string& path, const std::string& name) {
  std::string message =
      absl::StrCat(path.empty() ? "a job" : path, " has no field \"", Shown(name), "\"");
  const std::string near = DidYouMean(name, FieldNames(type));
  if (!near.empty()) return absl::StrCat(message, near);
  // More of them would be no help.
  constexpr size_t kMostPaths = 3;
  std::vector<std::string> below;
  AddPathsBelow(type, name, path, 0, below);
  if (!below.empty() && below.size() <= kMostPaths) {
    return absl::StrCat(message, "; did you mean ", absl::StrJoin(below, " or "), "?");
  }
  return absl::StrCat(message, "; ", FieldList(type));
}

std::string Join(const std::string& path, const FieldDescriptor& field) {
  return path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
}

// Returns what to say if another field of the same oneof is set; empty if none is.
std::string OtherChoice(const std::string& path, const FieldDescriptor& field,
                        const Message& message) {
  const OneofDescriptor* const choice = field.real_containing_oneof();
  if (choice == nullptr) return "";
  const FieldDescriptor* const chosen =
      message.GetReflection()->GetOneofFieldDescriptor(message, choice);
  if (chosen == nullptr || chosen == &field) return "";
  std::vector<std::string> names;
  for (int i = 0; i < choice->field_count(); ++i) names.push_back(choice->field(i)->name());
  return absl::StrCat(Join(path, field), " and ", Join(path, *chosen),
                      " are both given; give one of ", absl::StrJoin(names, ", "));
}

// Returns the entry of a map with this name, which is added if there is none.
Message& EntryOf(const std::string& name, const FieldDescriptor& field, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key = *field.message_type()->map_key();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    Message& entry = *reflection.MutableRepeatedMessage(&message, &field, i);
    if (entry.GetReflection()->GetString(entry, &key) == name) return entry;
  }
  Message& entry = *reflection.AddMessage(&message, &field);
  entry.GetReflection()->SetString(&entry, &key, name);
  return entry;
}

class Filler {
 public:
  explicit Filler(const std::string& origin) : origin_(origin) {}

  absl::Status Group(const TextNode& group, const std::string& path, Message& message) {
    if (group.kind == TextNode::Kind::kNothing && !path.empty()) return absl::OkStatus();
    if (group.kind != TextNode::Kind::kGroup) {
      const Descriptor& type = *message.GetDescriptor();
      return Error(group,
                   absl::StrCat(path.empty() ? "the whole text" : path, " is ", Described(group),
                                "; expected a group of fields: ", FieldList(type)));
    }
    std::set<const FieldDescriptor*> given;
    for (const TextEntry& entry : group.entries) {
      const FieldDescriptor* const field = FindField(*message.GetDescriptor(), entry.name);
      if (field == nullptr) {
        return TextError(origin_, entry.position,
                         UnknownField(*message.GetDescriptor(), path, entry.name));
      }
      if (!field->is_repeated() && !given.insert(field).second) {
        return TextError(origin_, entry.position,
                         absl::StrCat(Join(path, *field), " is given twice; give it once"));
      }
      if (const std::string other = OtherChoice(path, *field, message); !other.empty()) {
        return TextError(origin_, entry.position, other);
      }
      MUSTER_RETURN_IF_ERROR(Field(entry.node, Join(path, *field), *field, message));
    }
    return absl::OkStatus();
  }

  absl::Status Field(const TextNode& node, const std::string& path, const FieldDescriptor& field,
                     Message& message) {
    if (field.is_map() && !node.names_repeat) return Map(node, path, field, message);
    if (field.is_repeated() && node.kind == TextNode::Kind::kList) {
      for (const TextNode& item : node.items) {
        if (item.kind == TextNode::Kind::kNothing) {
          return Error(item, absl::StrCat(path, " has an empty element; leave the element out"));
        }
        MUSTER_RETURN_IF_ERROR(One(item, path, field, message));
      }
      return absl::OkStatus();
    }
    return One(node, path, field, message);
  }

  // Sets the value of one name of a map.
  absl::Status MapValue(const TextNode& node, const std::string& path, const std::string& name,
                        const FieldDescriptor& field, Message& message) {
    return One(node, absl::StrCat(path, ".", name), *field.message_type()->map_value(),
               EntryOf(name, field, message));
  }

 private:
  // Fills a map whose names are written as a group's fields are.
  absl::Status Map(const TextNode& node, const std::string& path, const FieldDescriptor& field,
                   Message& message) {
    if (node.kind == TextNode::Kind::kNothing) return absl::OkStatus();
    if (node.kind != TextNode::Kind::kGroup) {
      return Error(node, absl::StrCat(path, " is ", Described(node),
                                      "; expected names with values, as in `NAME: VALUE`"));
    }
    for (const TextEntry& entry : node.entries) {
      MUSTER_RETURN_IF_ERROR(MapValue(entry.node, path, entry.name, field, message));
    }
    return absl::OkStatus();
  }

  // Sets the field, or adds one element.
  absl::Status One(const TextNode& node, const std::string& path, const FieldDescriptor& field,
                   Message& message) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const google::protobuf::Reflection& reflection = *message.GetReflection();
      return Group(node, path,
                   field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                       : *reflection.MutableMessage(&message, &field));
    }
    if (node.kind == TextNode::Kind::kNothing) return absl::OkStatus();
    if (node.kind != TextNode::Kind::kValue) {
      return Error(node, absl::StrCat(path, " is ", Described(node), "; expected one value"));
    }
    const absl::Status stored = StoreValue(node, field, message);
    if (stored.ok()) return stored;
    return Error(node, absl::StrCat(path, " is ", Described(node), "; ", stored.message()));
  }

  static std::string Described(const TextNode& node) {
    switch (node.kind) {
      case TextNode::Kind::kNothing:
        return "empty";
      case TextNode::Kind::kValue:
        return absl::StrCat("\"", Shown(node.value), "\"");
      case TextNode::Kind::kList:
        return "a list";
      case TextNode::Kind::kGroup:
        return "a group of fields";
    }
    return "";
  }

  absl::Status Error(const TextNode& node, absl::string_view message) const {
    return TextError(origin_, node.position, message);
  }

  const std::string& origin_;
};

// A field's name in a path, and the number of an element behind it.
struct Step {
  std::string name;
  bool numbered = false;
  int number = 0;
};

bool ParseStep(absl::string_view text, Step& step) {
  const size_t bracket = text.find('[');
  step.name = std::string(text.substr(0, bracket));
  if (bracket == absl::string_view::npos) return !step.name.empty();
  step.numbered = true;
  const absl::string_view rest = text.substr(bracket + 1);
  return !step.name.empty() && !rest.empty() && rest.back() == ']' &&
         absl::SimpleAtoi(rest.substr(0, rest.size() - 1), &step.number) && step.number >= 0;
}

// Sets the position of a node and of all below it to none: places within an assigned value help
// nobody.
void ForgetPositions(TextNode& node) {
  node.position = {};
  for (TextNode& item : node.items) ForgetPositions(item);
  for (TextEntry& entry : node.entries) {
    entry.position = {};
    ForgetPositions(entry.node);
  }
}

// Parses the text after the '='.
absl::StatusOr<TextNode> ParseAssigned(const std::string& text, const std::string& origin,
                                       const FieldDescriptor& field, bool whole_list) {
  TextNode node;
  if (whole_list && !text.empty() && text[0] == '[') {
    MUSTER_ASSIGN_OR_RETURN(node, ParseYaml(text, origin));
    ForgetPositions(node);
    return node;
  }
  node.kind = TextNode::Kind::kValue;
  node.value = text;
  node.may_be_text = true;
  return node;
}

// The message that a step leads into.
absl::StatusOr<Message*> Enter(const Step& step, const std::string& path, const std::string& origin,
                               const FieldDescriptor& field, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) return reflection.MutableMessage(&message, &field);
  const int size = reflection.FieldSize(message, &field);
  if (step.number < size) return reflection.MutableRepeatedMessage(&message, &field, step.number);
  if (step.number == size) return reflection.AddMessage(&message, &field);
  return TextError(origin, {}, absl::StrCat(path, " has ", size, " elements, counted from 0"));
}

// Fills the message that a path leads to from a group in braces, and from nothing else.
absl::Status ReplaceGroup(const std::string& path, const std::string& origin,
                          const std::string& text, Message& message) {
  MUSTER_ASSIGN_OR_RETURN(TextNode node, ParseYaml(text, origin));
  ForgetPositions(node);
  message.Clear();
  return Filler(origin).Group(node, path, message);
}

// Writes the last step's value.
absl::Status Assign(const Step& step, const std::string& path, const std::string& origin,
                    const std::string& text, const FieldDescriptor& field, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  MUSTER_ASSIGN_OR_RETURN(
      const TextNode node,
      ParseAssigned(text, origin, field, field.is_repeated() && !step.numbered));
  Filler filler(origin);
  if (!step.numbered) {
    if (field.is_repeated()) reflection.ClearField(&message, &field);
    return filler.Field(node, path, field, message);
  }
  const int size = reflection.FieldSize(message, &field);
  if (step.number > size) {
    return TextError(origin, {}, absl::StrCat(path, " has ", size, " elements, counted from 0"));
  }
  MUSTER_RETURN_IF_ERROR(
      filler.Field(node, absl::StrCat(path, "[", step.number, "]"), field, message));
  if (step.number < size) {
    reflection.SwapElements(&message, &field, step.number, size);
    reflection.RemoveLast(&message, &field);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillMessage(const TextNode& root, const std::string& origin, Message& message) {
  return Filler(origin).Group(root, "", message);
}

absl::Status AssignField(const std::string& assignment, const std::string& origin,
                         Message& message) {
  const size_t equals = assignment.find('=');
  const std::string left = assignment.substr(0, equals);
  const std::vector<std::string> words = absl::StrSplit(left, '.');
  if (equals == std::string::npos || left.empty()) {
    return TextError(
        origin, {},
        absl::StrCat("\"", Shown(assignment),
                     "\" is not an assignment; expected one such as optimizer.learning_rate=3e-4"));
  }
  Message* current = &message;
  std::string path;
  for (size_t i = 0; i < words.size(); ++i) {
    Step step;
    if (!ParseStep(words[i], step)) {
      return TextError(origin, {},
                       absl::StrCat("\"", Shown(words[i]),
                                    "\" is not the name of a field, with or without an index, as "
                                    "in model.mlp.hidden[0]"));
    }
    const FieldDescriptor* const field = FindField(*current->GetDescriptor(), step.name);
    if (field == nullptr) {
      return TextError(origin, {}, UnknownField(*current->GetDescriptor(), path, step.name));
    }
    if (const std::string other = OtherChoice(path, *field, *current); !other.empty()) {
      return TextError(origin, {}, other);
    }
    path = Join(path, *field);
    if (field->is_map()) {
      if (step.numbered || i + 1 == words.size()) {
        return TextError(
            origin, {},
            absl::StrCat(path, " holds names with values; give one as in ", path, ".NAME=VALUE"));
      }
      MUSTER_ASSIGN_OR_RETURN(
          const TextNode node,
          ParseAssigned(assignment.substr(equals + 1), origin, *field, /*whole_list=*/false));
      // A name may have dots.
      const std::string name = absl::StrJoin(words.begin() + i + 1, words.end(), ".");
      return Filler(origin).MapValue(node, path, name, *field, *current);
    }
    const bool is_group = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (step.numbered && !field->is_repeated()) {
      return TextError(origin, {}, absl::StrCat(path, " is not a list; leave the index out"));
    }
    if (i + 1 == words.size()) {
      const std::string text = assignment.substr(equals + 1);
      if (is_group && absl::StartsWith(text, "{") && field->is_repeated() == step.numbered) {
        MUSTER_ASSIGN_OR_RETURN(current, Enter(step, path, origin, *field, *current));
        return ReplaceGroup(path, origin, text, *current);
      }
      if (is_group) {
        return TextError(origin, {},
                         absl::StrCat(path, " is a group of fields; name one of them: ",
                                      FieldList(*field->message_type())));
      }
      return Assign(step, path, origin, text, *field, *current);
    }
    if (!is_group) {
      return TextError(origin, {}, absl::StrCat(path, " is a single value and has no fields"));
    }
    if (field->is_repeated() && !step.numbered) {
      return TextError(
          origin, {},
          absl::StrCat(path, " is a list; give the index of an element, as in ", path, "[0]"));
    }
    MUSTER_ASSIGN_OR_RETURN(current, Enter(step, path, origin, *field, *current));
  }
  return absl::OkStatus();
}

}  // namespace muster
