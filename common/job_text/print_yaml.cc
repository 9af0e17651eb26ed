#include "common/job_text/print_yaml.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/text/dump_json.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kLineWidth = 80;

// Letters, digits and what paths have, begun by a letter or a slash; and nothing that some reader
// of YAML takes for something else than a text.
bool IsPlain(const std::string& text) {
  if (text.empty() || !(absl::ascii_isalpha(text[0]) || text[0] == '/')) return false;
  if (!std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '/' || c == '.' || c == '_' || c == '-';
      })) {
    return false;
  }
  const std::string word = absl::AsciiStrToLower(text);
  for (const char* taken : {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}) {
    if (word == taken) return false;
  }
  return true;
}

// JSON's quotes are YAML's double quotes.
std::string Text(const std::string& text) {
  return IsPlain(text) ? text : DumpJson(nlohmann::json(text));
}

// The shortest that is read back to the same.
template <typename T>
std::string Number(T value) {
  char text[64];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

// A value; of a repeated field that of the element `index`.
std::string Value(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(repeated ? reflection.GetRepeatedInt32(message, &field, index)
                                   : reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(repeated ? reflection.GetRepeatedInt64(message, &field, index)
                                   : reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(repeated ? reflection.GetRepeatedUInt32(message, &field, index)
                                   : reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(repeated ? reflection.GetRepeatedUInt64(message, &field, index)
                                   : reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(repeated ? reflection.GetRepeatedFloat(message, &field, index)
                             : reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(repeated ? reflection.GetRepeatedDouble(message, &field, index)
                             : reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (repeated ? reflection.GetRepeatedBool(message, &field, index)
                       : reflection.GetBool(message, &field))
                 ? "true"
                 : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return (repeated ? reflection.GetRepeatedEnum(message, &field, index)
                       : reflection.GetEnum(message, &field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(repeated ? reflection.GetRepeatedString(message, &field, index)
                           : reflection.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return "";
}

class YamlPrinter {
 public:
  explicit YamlPrinter(const YamlComments& comments) : comments_(comments) {}

  std::string Print(const Message& message) {
    Fields(message, "", "");
    // Nothing at all would be read back as no group of fields.
    return out_.empty() ? "{}\n" : std::move(out_);
  }

 private:
  void Fields(const Message& message, const std::string& path, const std::string& indent) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    // They come by their numbers, which say when each was thought of.
    std::sort(fields.begin(), fields.end(), [](const FieldDescriptor* a, const FieldDescriptor* b) {
      return a->index() < b->index();
    });
    for (const FieldDescriptor* field : fields) {
      const std::string name =
          path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
      Comment(name, indent);
      absl::StrAppend(&out_, indent, field->name(), ":");
      Field(message, *field, name, indent);
    }
  }

  void Comment(const std::string& path, const std::string& indent) {
    const auto found = comments_.find(path);
    if (found == comments_.end()) return;
    for (const absl::string_view line : absl::StrSplit(found->second, '\n')) {
      absl::StrAppend(&out_, indent, "# ", line, "\n");
    }
  }

  void Field(const Message& message, const FieldDescriptor& field, const std::string& path,
             const std::string& indent) {
    const Reflection& reflection = *message.GetReflection();
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field.is_repeated()) {
        absl::StrAppend(&out_, " ", Value(message, field, 0), "\n");
        return;
      }
      std::vector<std::string> values;
      for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
        values.push_back(Value(message, field, i));
      }
      List(values, indent);
      return;
    }
    if (!field.is_repeated()) {
      Group(reflection.GetMessage(message, &field), path, indent + "  ");
      return;
    }
    if (field.is_map()) return Map(message, field, indent + "  ");
    absl::StrAppend(&out_, "\n");
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      absl::StrAppend(&out_, indent, "  -");
      Group(reflection.GetRepeatedMessage(message, &field, i), path, indent + "    ");
    }
  }

  // Prints a map's entries in order of their names, one to a line.
  void Map(const Message& message, const FieldDescriptor& field, const std::string& indent) {
    const Reflection& reflection = *message.GetReflection();
    std::map<std::string, std::string> values;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
      values[Value(entry, *field.message_type()->map_key(), 0)] =
          Value(entry, *field.message_type()->map_value(), 0);
    }
    absl::StrAppend(&out_, "\n");
    for (const auto& [name, value] : values) {
      absl::StrAppend(&out_, indent, name, ": ", value, "\n");
    }
  }

  // In brackets, over as many lines as it takes.
  void List(const std::vector<std::string>& values, const std::string& indent) {
    out_ += " [";
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string value = absl::StrCat(values[i], i + 1 == values.size() ? "]" : ",");
      const size_t line = out_.size() - (out_.rfind('\n') + 1);
      if (i > 0 && line + 1 + value.size() > kLineWidth) {
        absl::StrAppend(&out_, "\n", indent, "  ", value);
      } else {
        absl::StrAppend(&out_, i == 0 ? "" : " ", value);
      }
    }
    out_ += values.empty() ? "]\n" : "\n";
  }

  void Group(const Message& message, const std::string& path, const std::string& indent) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    absl::StrAppend(&out_, fields.empty() ? " {}\n" : "\n");
    Fields(message, path, indent);
  }

  const YamlComments& comments_;
  std::string out_;
};

}  // namespace

std::string PrintYaml(const Message& message, const YamlComments& comments) {
  return YamlPrinter(comments).Print(message);
}

}  // namespace muster
