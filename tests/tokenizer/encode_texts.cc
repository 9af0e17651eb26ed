// Encodes texts for tests that hold tokenizers against those of others. Usage:
//
//   encode_texts TOKENIZER < TEXTS
//
// Each line of TEXTS is a text as JSON. For each, prints a JSON object on a line: "ids" of its
// tokens as a document, and "text", what they decode to. If the tokenizer cannot be opened, one
// object with the "error".
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/text/dump_json.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  using muster::DumpJson;
  using Json = nlohmann::json;
  const auto tokenizer = muster::OpenTokenizer(argc > 1 ? argv[1] : "bytes");
  if (!tokenizer.ok()) {
    std::cout << DumpJson(Json({{"error", std::string(tokenizer.status().message())}})) << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const std::string text = Json::parse(line).get<std::string>();
    const std::vector<int32_t> ids = muster::EncodeAll(**tokenizer, text);
    std::string decoded;
    for (const int32_t id : ids) absl::StrAppend(&decoded, (*tokenizer)->BytesOf(id));
    std::cout << DumpJson(Json({{"ids", ids}, {"text", decoded}})) << "\n";
  }
  return 0;
}
