#include "common/job_text/complete_assignment.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/job_text/text_node.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Messages within one another; a job has fewer.
constexpr size_t kMostNested = 6;
// More candidates would be no help.
constexpr size_t kMostCandidates = 6;

struct Alias {
  absl::string_view name;
  absl::string_view field;
};
constexpr Alias kAliases[] = {{"lr", "learning_rate"}, {"batch", "batch_size"}};

using Fields = std::vector<const FieldDescriptor*>;

// Returns true if the message chose another field of a oneof. `message` may be null: not set.
bool IsExcluded(const FieldDescriptor& field, const Message* message) {
  if (message == nullptr || field.real_containing_oneof() == nullptr) return false;
  const FieldDescriptor* const chosen =
      message->GetReflection()->GetOneofFieldDescriptor(*message, field.real_containing_oneof());
  return chosen != nullptr && chosen != &field;
}

// Returns true if a path of fields ends in these names.
bool EndsIn(const Fields& path, const std::vector<std::string>& names) {
  return path.size() >= names.size() &&
         std::equal(names.rbegin(), names.rend(), path.rbegin(),
                    [](const std::string& name, const FieldDescriptor* field) {
                      return field->name() == name || field->camelcase_name() == name;
                    });
}

// Appends the paths below a message that end in these names. `path` leads to the message.
void FindPaths(const Descriptor& type, const Message* message,
               const std::vector<std::string>& names, Fields& path, std::vector<Fields>& found) {
  if (path.size() == kMostNested) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsExcluded(field, message)) continue;
    path.push_back(&field);
    if (EndsIn(path, names)) found.push_back(path);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated()) {
      const bool set = message != nullptr && message->GetReflection()->HasField(*message, &field);
      FindPaths(*field.message_type(),
                set ? &message->GetReflection()->GetMessage(*message, &field) : nullptr, names,
                path, found);
    }
    path.pop_back();
  }
}

std::string TextOf(const Fields& path) {
  return absl::StrJoin(path, ".", [](std::string* text, const FieldDescriptor* field) {
    absl::StrAppend(text, field->name());
  });
}

}  // namespace

absl::StatusOr<std::string> CompleteAssignment(const std::string& assignment,
                                               const std::string& origin, const Message& message) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos) return assignment;
  // An index stays behind the field.
  const size_t end = std::min(equals, assignment.find('['));
  const std::string given = assignment.substr(0, end);
  std::vector<std::string> names = absl::StrSplit(given, '.');
  const auto find = [&] {
    std::vector<Fields> found;
    Fields path;
    FindPaths(*message.GetDescriptor(), &message, names, path, found);
    return found;
  };
  std::vector<Fields> found = find();
  // As it is: the whole path.
  const auto whole = [&names](const Fields& path) { return path.size() == names.size(); };
  if (std::any_of(found.begin(), found.end(), whole)) return assignment;
  for (const Alias& alias : kAliases) {
    if (!found.empty() || names.back() != alias.name) continue;
    names.back() = std::string(alias.field);
    found = find();
  }
  if (found.empty()) return assignment;
  if (found.size() > 1 && std::none_of(found.begin(), found.end(), whole)) {
    std::vector<std::string> candidates;
    for (const Fields& path : found) candidates.push_back(TextOf(path));
    const size_t more = candidates.size() - std::min(candidates.size(), kMostCandidates);
    candidates.resize(candidates.size() - more);
    return TextError(
        origin, {},
        absl::StrCat("\"", given, "\" may be ", absl::StrJoin(candidates, " or "),
                     more > 0 ? absl::StrCat(" or ", more, " others") : "", "; name one of them"));
  }
  const auto exact = std::find_if(found.begin(), found.end(), whole);
  return absl::StrCat(TextOf(exact == found.end() ? found.front() : *exact),
                      assignment.substr(end));
}

}  // namespace muster
