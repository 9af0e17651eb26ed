#include "server/coordinator/requests/given_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Adds the paths of a message's fields, each after `prefix`.
void AddFields(const std::string& prefix, const Message& message, std::vector<std::string>& paths) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, field->name());
    const size_t before = paths.size();
    if (!field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddFields(path + ".", reflection.GetMessage(message, field), paths);
    }
    if (paths.size() == before) paths.push_back(path);
  }
}

}  // namespace

std::vector<std::string> GivenFields(const v1::JobSpec& spec) {
  std::vector<std::string> paths;
  AddFields("", spec, paths);
  return paths;
}

}  // namespace muster
