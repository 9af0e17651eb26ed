#include "common/chat_template/ends_of_turns.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/parse_json.h"
#include "common/text/dump_json.h"
#include "common/text/printable.h"

namespace muster {
namespace {

// Adds the ids of eos_token_id, which is one or a list.
absl::Status AddIds(const std::string& path, int64_t vocabulary, std::set<int32_t>& ends) {
  MUSTER_ASSIGN_OR_RETURN(const FileContent file, FileContent::Open(path));
  MUSTER_ASSIGN_OR_RETURN(const nlohmann::json json,
                          ParseJson(file.bytes(), path, "a generation_config.json"));
  if (!json.is_object()) return absl::InvalidArgumentError(path + " is no JSON object");
  const nlohmann::json found = json.value("eos_token_id", nlohmann::json());
  if (found.is_null()) return absl::OkStatus();
  const nlohmann::json ids = found.is_array() ? found : nlohmann::json::array({found});
  for (const nlohmann::json& id : ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": eos_token_id has ", PrintableLine(DumpJson(id)),
                       ", expected a token of the tokenizer, from 0 to ", vocabulary - 1));
    }
    ends.insert(static_cast<int32_t>(id.get<uint64_t>()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> EndsOfTurns(const std::string& folder,
                                                 const ModelChatTemplate& chat_template,
                                                 const Tokenizer& tokenizer) {
  std::set<int32_t> ends;
  const std::string path = folder + "/generation_config.json";
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    MUSTER_RETURN_IF_ERROR(AddIds(path, tokenizer.vocabulary(), ends));
  }
  const auto eos = chat_template.tokens().find("eos_token");
  if (eos != chat_template.tokens().end()) {
    // A text of several tokens ends nothing by itself.
    const std::vector<int32_t> tokens =
        EncodeAll(tokenizer, eos->get<std::string>(), TextStart::kWithin);
    if (tokens.size() == 1) ends.insert(tokens[0]);
  }
  return std::vector<int32_t>(ends.begin(), ends.end());
}

}  // namespace muster
