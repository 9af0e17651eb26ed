#include "common/tokenizer/files/token_file_progress.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/statusor.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/files/parse_json.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Tells the file from others, with the version of its form.
constexpr char kKind[] = "muster token file in progress, 1";

// Returns a field, or nothing if it is missing or of another type.
bool Take(const Json& json, const char* name, uint64_t& number) {
  if (!json.contains(name) || !json[name].is_number_unsigned()) return false;
  number = json[name].get<uint64_t>();
  return true;
}

bool Take(const Json& json, const char* name, bool& value) {
  if (!json.contains(name) || !json[name].is_boolean()) return false;
  value = json[name].get<bool>();
  return true;
}

bool Take(const Json& json, const char* name, std::string& text) {
  if (!json.contains(name) || !json[name].is_string()) return false;
  text = json[name].get<std::string>();
  return true;
}

bool Take(const Json& json, const char* name, std::vector<uint64_t>& numbers) {
  if (!json.contains(name) || !json[name].is_array()) return false;
  for (const Json& number : json[name]) {
    if (!number.is_number_unsigned()) return false;
    numbers.push_back(number.get<uint64_t>());
  }
  return true;
}

}  // namespace

absl::Status WriteTokenFileProgress(const std::string& path, const TokenFileProgress& progress) {
  const Json json = {{"kind", kKind},
                     {"source", progress.source},
                     {"position", progress.position},
                     {"bytes", progress.bytes},
                     {"tokens", progress.tokens},
                     {"source_bytes", progress.source_bytes},
                     {"last_end", progress.last_end},
                     {"after_text", progress.after_text},
                     {"chunks", progress.chunks},
                     {"rest", progress.rest},
                     {"ends", progress.ends},
                     {"ends_fingerprint", progress.ends_fingerprint},
                     {"all_trained", progress.trained.all},
                     {"bits", progress.trained.bits},
                     {"trained", progress.trained.trained},
                     {"byte", uint64_t{progress.trained.byte}},
                     {"packed", progress.packed},
                     {"packed_fingerprint", progress.packed_fingerprint}};
  return WriteOutputFile(path, Replace::kFiles,
                         json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::optional<TokenFileProgress> ReadTokenFileProgress(const std::string& path) {
  FileContentOptions options;
  options.named_by = FileContentOptions::NamedBy::kThisProgram;
  const absl::StatusOr<FileContent> content = FileContent::Open(path, options);
  if (!content.ok()) return std::nullopt;
  const absl::StatusOr<Json> json = ParseJson(content->bytes(), path, kKind);
  std::string kind;
  if (!json.ok() || !json->is_object() || !Take(*json, "kind", kind) || kind != kKind) {
    return std::nullopt;
  }
  TokenFileProgress progress;
  uint64_t byte = 0;
  const bool whole =
      Take(*json, "source", progress.source) && Take(*json, "position", progress.position) &&
      Take(*json, "bytes", progress.bytes) && Take(*json, "tokens", progress.tokens) &&
      Take(*json, "source_bytes", progress.source_bytes) &&
      Take(*json, "last_end", progress.last_end) &&
      Take(*json, "after_text", progress.after_text) && Take(*json, "chunks", progress.chunks) &&
      Take(*json, "rest", progress.rest) && Take(*json, "ends", progress.ends) &&
      Take(*json, "ends_fingerprint", progress.ends_fingerprint) &&
      Take(*json, "all_trained", progress.trained.all) &&
      Take(*json, "bits", progress.trained.bits) &&
      Take(*json, "trained", progress.trained.trained) && Take(*json, "byte", byte) &&
      Take(*json, "packed", progress.packed) &&
      Take(*json, "packed_fingerprint", progress.packed_fingerprint);
  if (!whole) return std::nullopt;
  progress.trained.byte = static_cast<unsigned char>(byte);
  return progress;
}

}  // namespace muster
