#ifndef MUSTER_COMMON_TEXT_DUMP_JSON_H_
#define MUSTER_COMMON_TEXT_DUMP_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

namespace muster {

// Returns the JSON text of nlohmann::json or nlohmann::ordered_json, on one line or indented. A
// string that is not UTF-8, such as a file's name, has U+FFFD in place of other bytes; the
// library's own dump() would end the program instead.
template <typename Json>
std::string DumpJson(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_DUMP_JSON_H_
