#include "server/coordinator/page/query_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "server/coordinator/job/request_limits.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsKept(const FieldDescriptor& field, absl::Span<const absl::string_view> kept) {
  return std::find(kept.begin(), kept.end(), field.json_name()) != kept.end();
}

absl::Status NoSuchField(const Descriptor& type, absl::Span<const absl::string_view> kept,
                         const std::string& name) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    if (!IsKept(*type.field(i), kept)) names.push_back(type.field(i)->json_name());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the query has \"", name, "\", which is no field here; there are: ",
                   names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

const FieldDescriptor* Find(const Descriptor& type, absl::Span<const absl::string_view> kept,
                            const std::string& name) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->json_name() == name) return IsKept(*field, kept) ? nullptr : field;
  }
  return nullptr;
}

absl::Status BadValue(const std::string& name, const std::string& value,
                      absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the query's ", name, " is \"", Shortened(value, 100), "\"; it must be ", expected));
}

// Adds an entry to a map of strings.
absl::Status AddEntry(const FieldDescriptor& field, const std::string& value, Message& request) {
  const size_t equals = value.find('=');
  if (equals == std::string::npos) return BadValue(field.json_name(), value, "KEY=VALUE");
  Message* entry = request.GetReflection()->AddMessage(&request, &field);
  const Descriptor& type = *entry->GetDescriptor();
  entry->GetReflection()->SetString(entry, type.map_key(), value.substr(0, equals));
  entry->GetReflection()->SetString(entry, type.map_value(), value.substr(equals + 1));
  return absl::OkStatus();
}

absl::Status SetEnum(const FieldDescriptor& field, const std::string& value, Message& request) {
  const auto* found = field.enum_type()->FindValueByName(value);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (int i = 1; i < field.enum_type()->value_count(); ++i) {
      names.push_back(field.enum_type()->value(i)->name());
    }
    return BadValue(field.json_name(), value, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
  }
  if (field.is_repeated()) {
    request.GetReflection()->AddEnum(&request, &field, found);
  } else {
    request.GetReflection()->SetEnum(&request, &field, found);
  }
  return absl::OkStatus();
}

absl::Status SetField(const FieldDescriptor& field, const std::string& value, Message& request) {
  const Reflection& reflection = *request.GetReflection();
  const std::string& name = field.json_name();
  uint32_t number = 0;
  uint64_t large = 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.is_repeated()) {
        reflection.AddString(&request, &field, value);
      } else {
        reflection.SetString(&request, &field, value);
      }
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value != "true" && value != "false") return BadValue(name, value, "true or false");
      reflection.SetBool(&request, &field, value == "true");
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!absl::SimpleAtoi(value, &number)) return BadValue(name, value, "a number of 32 bits");
      reflection.SetUInt32(&request, &field, number);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!absl::SimpleAtoi(value, &large)) return BadValue(name, value, "a number of 64 bits");
      reflection.SetUInt64(&request, &field, large);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(field, value, request);
    default:
      return absl::InternalError(absl::StrCat("no query can set ", field.full_name()));
  }
}

}  // namespace

absl::Status SetFields(const QueryFields& query, absl::Span<const absl::string_view> kept,
                       Message& request) {
  const Descriptor& type = *request.GetDescriptor();
  std::set<const FieldDescriptor*> given;
  for (const auto& [name, value] : query) {
    const FieldDescriptor* field = Find(type, kept, name);
    if (field == nullptr) return NoSuchField(type, kept, name);
    if (!given.insert(field).second && !field->is_repeated()) {
      return absl::InvalidArgumentError(absl::StrCat("the query has ", name, " twice"));
    }
    MUSTER_RETURN_IF_ERROR(field->is_map() ? AddEntry(*field, value, request)
                                           : SetField(*field, value, request));
  }
  return CheckLimits(request);
}

}  // namespace muster
