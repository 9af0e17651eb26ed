#include "common/text/error_json.h"

#include <nlohmann/json.hpp>

#include "common/text/dump_json.h"
#include "common/text/printable.h"

namespace muster {

std::string ErrorJson(absl::string_view code, absl::string_view message, int exit_code) {
  const nlohmann::ordered_json error = {
      {"code", std::string(code)}, {"message", std::string(message)}, {"exit_code", exit_code}};
  return PrintableJson(DumpJson(nlohmann::ordered_json{{"error", error}}));
}

}  // namespace muster
