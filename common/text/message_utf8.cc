#include "common/text/message_utf8.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Most bytes of a value that an error shows.
constexpr size_t kMostShown = 200;

absl::Status CheckValue(const std::string& path, absl::string_view value) {
  if (IsUtf8(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is not UTF-8: ", CutUtf8(PrintableLine(value), kMostShown),
                   "; rename the file, or save the text as UTF-8"));
}

absl::Status Check(const std::string& prefix, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, field->name());
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      absl::Status status;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        status = Check(path + ".", field->is_repeated()
                                       ? reflection.GetRepeatedMessage(message, field, i)
                                       : reflection.GetMessage(message, field));
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        std::string scratch;
        status = CheckValue(path,
                            field->is_repeated()
                                ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                                : reflection.GetStringReference(message, field, &scratch));
      }
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUtf8(const Message& message) { return Check("", message); }

}  // namespace muster
