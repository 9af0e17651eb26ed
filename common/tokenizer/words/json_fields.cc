#include "common/tokenizer/words/json_fields.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/text/length_of.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr const char* kEndOfTextNames[] = {
    "<|endoftext|>", "<|end_of_text|>", "</s>",
    "<eos>",         "<EOT>",           "<\uff5cend\u2581of\u2581sentence\uff5c>"};

// Names by which an error may call what it found: they say nothing that only the file knows. Names
// of an end of text are such, too.
constexpr absl::string_view kKnownNames[] = {
    // Types in a tokenizer.json.
    "BPE", "BertNormalizer", "BertPreTokenizer", "BertProcessing", "ByteFallback", "ByteLevel",
    "Digits", "Fuse", "Lowercase", "Metaspace", "NFC", "NFD", "NFKC", "NFKD", "Precompiled",
    "Prepend", "Punctuation", "Replace", "RobertaProcessing", "Sequence", "Split", "Strip",
    "StripAccents", "TemplateProcessing", "Unigram", "UnicodeScripts", "Whitespace",
    "WhitespaceSplit", "WordLevel", "WordPiece",
    // Classes in a tokenizer_config.json.
    "BartTokenizer", "BartTokenizerFast", "BertTokenizer", "BertTokenizerFast",
    "BloomTokenizerFast", "CLIPTokenizer", "CLIPTokenizerFast", "CodeGenTokenizer",
    "CodeGenTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast", "GemmaTokenizer",
    "GemmaTokenizerFast", "GPTNeoXTokenizer", "GPTNeoXTokenizerFast", "LlamaTokenizer",
    "LlamaTokenizerFast", "OpenAIGPTTokenizer", "OpenAIGPTTokenizerFast", "PreTrainedTokenizer",
    "PreTrainedTokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", "RobertaTokenizer",
    "RobertaTokenizerFast", "T5Tokenizer", "T5TokenizerFast", "WhisperTokenizer",
    "WhisperTokenizerFast"};

bool IsKnownName(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return absl::c_linear_search(kKnownNames, text) || absl::c_linear_search(EndOfTextNames(), text);
}

// Returns the kind of a value, as errors name it.
std::string Kind(const Json& value) {
  if (IsKnownName(value)) return value.get<std::string>();
  if (value.is_string()) {
    return absl::StrCat("a text of ", LengthOf(value.get_ref<const std::string&>()));
  }
  if (value.is_object()) {
    const Json& type = MemberOf(value, "type");
    if (IsKnownName(type)) {
      return absl::StrCat("an object of type ", type.get_ref<const std::string&>());
    }
    return absl::StrCat("an object of ", value.size(), value.size() == 1 ? " member" : " members");
  }
  if (value.is_array()) return absl::StrCat("a list of ", value.size());
  if (value.is_number_float()) return "a number with a fraction";
  if (value.is_number_unsigned()) return absl::StrCat("a number of ", LengthOf(value.dump()));
  if (value.is_number()) return "a negative number";
  return value.is_null() ? "missing or null" : value.get<bool>() ? "true" : "false";
}

}  // namespace

absl::Span<const char* const> EndOfTextNames() { return kEndOfTextNames; }

absl::Status RefuseField(const std::string& origin, absl::string_view field, const Json& value,
                         absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(origin, ": ", field, " is ", Kind(value), "; ", expected));
}

const Json& MemberOf(const Json& object, const std::string& name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

bool IsOff(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

std::string TypeOf(const Json& value) {
  const Json& type = MemberOf(value, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

absl::StatusOr<bool> ParseFlag(const Json& value, const std::string& origin,
                               absl::string_view field) {
  if (IsOff(value)) return false;
  if (value == Json(true)) return true;
  return RefuseField(origin, field, value, "expected true or false");
}

}  // namespace muster
