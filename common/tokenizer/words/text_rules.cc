#include "common/tokenizer/words/text_rules.h"

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"
#include "common/tokenizer/words/json_fields.h"
#include "common/tokenizer/words/precompiled_map.h"
#include "common/tokenizer/words/translate_expression.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr char kGpt2Words[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// The words of Llama 3 and of Qwen match all text, too, and no space behind a letter.
constexpr char kLlama3Words[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kQwenWords[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

bool EndsBeforeSpaces(absl::string_view expression) {
  return expression == kGpt2Words || expression == kLlama3Words || expression == kQwenWords;
}

// With the ASCII symbols that the original counts among punctuation.
constexpr char kPunctuation[] = "[\\p{P}$+<=>\\^`|~]";

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Reads one file's rules. Fields are named by their path in errors.
class RuleReader {
 public:
  explicit RuleReader(const std::string& origin) : origin_(origin) {}

  absl::StatusOr<ReadTextRules> Read(const TextRules& rules) {
    MUSTER_ASSIGN_OR_RETURN(const Json normalizer, Parse(rules.normalizer, "normalizer"));
    MUSTER_ASSIGN_OR_RETURN(const Json pre_tokenizer, Parse(rules.pre_tokenizer, "pre_tokenizer"));
    MUSTER_ASSIGN_OR_RETURN(const Json post_processor,
                            Parse(rules.post_processor, "post_processor"));
    MUSTER_ASSIGN_OR_RETURN(const Json decoder, Parse(rules.decoder, "decoder"));
    if (!normalizer.is_null()) MUSTER_RETURN_IF_ERROR(Normalizer(normalizer, "normalizer"));
    if (!pre_tokenizer.is_null()) {
      MUSTER_RETURN_IF_ERROR(PreTokenizer(pre_tokenizer, "pre_tokenizer"));
    }
    if (!post_processor.is_null()) {
      MUSTER_RETURN_IF_ERROR(PostProcessor(post_processor, "post_processor"));
    }
    if (!decoder.is_null()) {
      MUSTER_RETURN_IF_ERROR(Decoder(decoder, "decoder"));
      // The decoder must be of the same kind of vocabulary: of bytes, or of characters.
      if (decodes_bytes_ != read_.byte_level) {
        return RefuseField(origin_, "decoder", decoder,
                           read_.byte_level
                               ? "only ByteLevel is understood with the pre_tokenizer ByteLevel"
                               : "ByteLevel is understood only with the pre_tokenizer ByteLevel");
      }
    }
    read_.identity = absl::StrCat(IdentityOf(normalizer), "\n", IdentityOf(pre_tokenizer));
    return std::move(read_);
  }

 private:
  absl::StatusOr<Json> Parse(const std::string& text, absl::string_view field) const {
    if (text.empty()) return Json();
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
      return absl::InvalidArgumentError(absl::StrCat(origin_, ": ", field, " is not JSON"));
    }
    return json;
  }

  // Returns a rule without what changes no tokens.
  static std::string IdentityOf(Json rule) {
    WithoutOffsets(rule);
    return DumpJson(rule, -1);
  }

  static void WithoutOffsets(Json& rule) {
    if (rule.is_object()) rule.erase("trim_offsets");
    if (!rule.is_structured()) return;
    for (Json& each : rule) WithoutOffsets(each);
  }

  absl::Status InSequence(const Json& rule, const std::string& field, const char* list,
                          absl::Status (RuleReader::*read)(const Json&, const std::string&)) {
    const Json& rules = MemberOf(rule, list);
    if (!rules.is_array()) {
      return RefuseField(origin_, absl::StrCat(field, ".", list), rules, "expected a list");
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      MUSTER_RETURN_IF_ERROR((this->*read)(rules[i], absl::StrCat(field, ".", list, "[", i, "]")));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Flag(const Json& rule, const char* option, const std::string& field) const {
    return ParseFlag(MemberOf(rule, option), origin_, absl::StrCat(field, ".", option));
  }

  // Reads a pattern: {"String": text} or {"Regex": expression}.
  absl::StatusOr<std::shared_ptr<const Expression>> Pattern(const Json& rule,
                                                            const std::string& field) const {
    const Json& pattern = MemberOf(rule, "pattern");
    const Json& text = MemberOf(pattern, "String");
    const Json& expression = MemberOf(pattern, "Regex");
    if (TextOf(text).empty() && TextOf(expression).empty()) {
      return RefuseField(origin_, absl::StrCat(field, ".pattern"), pattern,
                         "expected an object with a text as String or an expression as Regex");
    }
    return Compile(text.is_string() ? ExpressionOfText(TextOf(text)) : TextOf(expression),
                   absl::StrCat(field, ".pattern"));
  }

  absl::StatusOr<std::shared_ptr<const Expression>> Compile(absl::string_view expression,
                                                            const std::string& field) const {
    const auto compile = [&]() -> absl::StatusOr<std::shared_ptr<const Expression>> {
      MUSTER_ASSIGN_OR_RETURN(const std::string translated, TranslateExpression(expression));
      return Expression::Create(translated);
    };
    const auto compiled = compile();
    if (compiled.ok()) return compiled;
    return absl::InvalidArgumentError(
        absl::StrCat(origin_, ": ", field, ": ", compiled.status().message()));
  }

  absl::Status Normalizer(const Json& rule, const std::string& field) {
    const std::string type = TypeOf(rule);
    if (type == "Sequence") {
      return InSequence(rule, field, "normalizers", &RuleReader::Normalizer);
    }
    static constexpr std::pair<const char*, Rewriter::Form> kForms[] = {
        {"NFC", Rewriter::Form::kNfc},
        {"NFD", Rewriter::Form::kNfd},
        {"NFKC", Rewriter::Form::kNfkc},
        {"NFKD", Rewriter::Form::kNfkd}};
    for (const auto& [name, form] : kForms) {
      if (type != name) continue;
      read_.normalizer.Add(form);
      return absl::OkStatus();
    }
    if (type == "Prepend") {
      read_.normalizer.Add(Rewriter::Prepend{TextOf(MemberOf(rule, "prepend"))});
      return absl::OkStatus();
    }
    if (type == "Strip") {
      MUSTER_ASSIGN_OR_RETURN(const bool left, Flag(rule, "strip_left", field));
      MUSTER_ASSIGN_OR_RETURN(const bool right, Flag(rule, "strip_right", field));
      read_.normalizer.Add(Rewriter::Strip{left, right});
      return absl::OkStatus();
    }
    if (type == "Replace") return Replace(rule, field);
    if (type == "Precompiled") {
      const Json& table = MemberOf(rule, "precompiled_charsmap");
      std::string bytes;
      if (table.is_null()) return absl::OkStatus();
      if (!absl::Base64Unescape(TextOf(table), &bytes)) {
        return RefuseField(origin_, absl::StrCat(field, ".precompiled_charsmap"), table,
                           "expected bytes in Base64");
      }
      const auto map = PrecompiledMap::Create(bytes);
      if (!map.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(origin_, ": ", field, ": ", map.status().message()));
      }
      read_.normalizer.Add(*map);
      return absl::OkStatus();
    }
    return RefuseField(origin_, field, rule,
                       "only NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, Precompiled and "
                       "Sequence are understood");
  }

  absl::Status Replace(const Json& rule, const std::string& field) {
    const std::string content = TextOf(MemberOf(rule, "content"));
    const Json& text = MemberOf(MemberOf(rule, "pattern"), "String");
    if (!TextOf(text).empty()) {
      read_.normalizer.Add(Rewriter::Replace{TextOf(text), content});
      return absl::OkStatus();
    }
    MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const Expression> expression, Pattern(rule, field));
    read_.normalizer.Add(Rewriter::ReplaceMatches{std::move(expression), content});
    return absl::OkStatus();
  }

  absl::Status PreTokenizer(const Json& rule, const std::string& field) {
    const std::string type = TypeOf(rule);
    if (type == "Sequence") {
      return InSequence(rule, field, "pretokenizers", &RuleReader::PreTokenizer);
    }
    if (read_.byte_level) {
      return RefuseField(origin_, field, rule,
                         "it would divide the characters that ByteLevel writes for bytes; "
                         "ByteLevel is understood only as the last one");
    }
    if (type == "ByteLevel") return ByteLevel(rule, field);
    if (type == "Metaspace") return Metaspace(rule, field);
    if (type == "Split") {
      MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const Expression> expression, Pattern(rule, field));
      MUSTER_ASSIGN_OR_RETURN(const WordSplitter::Behavior behavior,
                              BehaviorOf(MemberOf(rule, "behavior"), field));
      MUSTER_ASSIGN_OR_RETURN(const bool inverted, Flag(rule, "invert", field));
      const std::string regex = TextOf(MemberOf(MemberOf(rule, "pattern"), "Regex"));
      read_.splitter.Add({std::move(expression), behavior, inverted, EndsBeforeSpaces(regex)});
      return absl::OkStatus();
    }
    if (type == "Digits") {
      MUSTER_ASSIGN_OR_RETURN(const bool each, Flag(rule, "individual_digits", field));
      return AddSplit(
          "\\p{N}", each ? WordSplitter::Behavior::kIsolated : WordSplitter::Behavior::kContiguous);
    }
    if (type == "Punctuation") {
      const Json& named = MemberOf(rule, "behavior");
      MUSTER_ASSIGN_OR_RETURN(const WordSplitter::Behavior behavior,
                              BehaviorOf(named.is_null() ? Json("Isolated") : named, field));
      return AddSplit(kPunctuation, behavior);
    }
    if (type == "WhitespaceSplit") return AddSplit("\\s", WordSplitter::Behavior::kRemoved);
    return RefuseField(origin_, field, rule,
                       "only ByteLevel, Digits, Metaspace, Punctuation, Split, WhitespaceSplit and "
                       "Sequence are understood");
  }

  absl::Status AddSplit(absl::string_view expression, WordSplitter::Behavior behavior) {
    MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const Expression> compiled,
                            Compile(expression, "pre_tokenizer"));
    read_.splitter.Add({std::move(compiled), behavior, false, EndsBeforeSpaces(expression)});
    return absl::OkStatus();
  }

  absl::StatusOr<WordSplitter::Behavior> BehaviorOf(const Json& value,
                                                    const std::string& field) const {
    static constexpr std::pair<const char*, WordSplitter::Behavior> kBehaviors[] = {
        {"Isolated", WordSplitter::Behavior::kIsolated},
        {"Removed", WordSplitter::Behavior::kRemoved},
        {"Contiguous", WordSplitter::Behavior::kContiguous},
        {"MergedWithPrevious", WordSplitter::Behavior::kMergedWithPrevious},
        {"MergedWithNext", WordSplitter::Behavior::kMergedWithNext}};
    for (const auto& [name, behavior] : kBehaviors) {
      if (value == Json(name)) return behavior;
    }
    return RefuseField(origin_, absl::StrCat(field, ".behavior"), value,
                       "expected Isolated, Removed, Contiguous, MergedWithPrevious or "
                       "MergedWithNext");
  }

  // Changes of text before all division are part of what is done before words are looked for.
  void AddRewriter(Rewriter rewriter) {
    if (read_.splitter.empty()) {
      read_.beginnings.Add(rewriter);
    } else {
      read_.splitter.Add(std::move(rewriter));
    }
  }

  absl::Status ByteLevel(const Json& rule, const std::string& field) {
    read_.byte_level = true;
    MUSTER_ASSIGN_OR_RETURN(const bool prefix, Flag(rule, "add_prefix_space", field));
    if (prefix) {
      Rewriter rewriter;
      rewriter.Add(Rewriter::Prepend{" ", true});
      AddRewriter(std::move(rewriter));
    }
    if (MemberOf(rule, "use_regex").is_null()) return AddGpt2Words();
    MUSTER_ASSIGN_OR_RETURN(const bool use_regex, Flag(rule, "use_regex", field));
    return use_regex ? AddGpt2Words() : absl::OkStatus();
  }

  absl::Status AddGpt2Words() { return AddSplit(kGpt2Words, WordSplitter::Behavior::kIsolated); }

  absl::Status Metaspace(const Json& rule, const std::string& field) {
    const std::string replacement = TextOf(MemberOf(rule, "replacement"));
    if (replacement.empty()) {
      return RefuseField(origin_, absl::StrCat(field, ".replacement"),
                         MemberOf(rule, "replacement"), "expected a character");
    }
    const Json& scheme = MemberOf(rule, "prepend_scheme");
    const Json& add_prefix = MemberOf(rule, "add_prefix_space");
    const bool never = scheme == Json("never") || (scheme.is_null() && add_prefix == Json(false));
    const bool first = scheme == Json("first");
    if (!never && !first && scheme != Json("always") && !scheme.is_null()) {
      return RefuseField(origin_, absl::StrCat(field, ".prepend_scheme"), scheme,
                         "expected always, first or never");
    }
    if (first && !read_.splitter.empty()) {
      return RefuseField(origin_, absl::StrCat(field, ".prepend_scheme"), scheme,
                         "first is understood only where Metaspace comes first");
    }
    Rewriter rewriter;
    rewriter.Add(Rewriter::Replace{" ", replacement});
    if (!never) rewriter.Add(Rewriter::Prepend{replacement, true});
    read_.only_first = read_.only_first || first;
    AddRewriter(std::move(rewriter));
    if (!MemberOf(rule, "split").is_null()) {
      MUSTER_ASSIGN_OR_RETURN(const bool split, Flag(rule, "split", field));
      if (!split) return absl::OkStatus();
    }
    return AddSplit(ExpressionOfText(replacement), WordSplitter::Behavior::kMergedWithNext);
  }

  absl::Status PostProcessor(const Json& rule, const std::string& field) {
    const std::string type = TypeOf(rule);
    if (type == "Sequence") {
      return InSequence(rule, field, "processors", &RuleReader::PostProcessor);
    }
    if (type == "ByteLevel") return absl::OkStatus();
    if (type == "TemplateProcessing") return Template(rule, field);
    return RefuseField(origin_, field, rule,
                       "only ByteLevel, TemplateProcessing and Sequence are understood");
  }

  absl::Status Template(const Json& rule, const std::string& field) {
    const Json& single = MemberOf(rule, "single");
    if (!single.is_array()) {
      return RefuseField(origin_, absl::StrCat(field, ".single"), single, "expected a list");
    }
    bool behind = false;
    for (const Json& item : single) {
      if (!MemberOf(item, "Sequence").is_null()) {
        behind = true;
        continue;
      }
      const std::string name = TextOf(MemberOf(MemberOf(item, "SpecialToken"), "id"));
      const Json& ids = MemberOf(MemberOf(MemberOf(rule, "special_tokens"), name), "ids");
      if (!ids.is_array()) {
        return RefuseField(origin_, absl::StrCat(field, ".single"), item,
                           "expected Sequence, or a SpecialToken of special_tokens");
      }
      // Documents end with an end-of-text anyway, which is what stands behind them in files.
      if (behind) continue;
      for (const Json& id : ids) {
        if (!id.is_number_integer() || id < Json(0) || id >= Json(1 << 24)) {
          return RefuseField(origin_, absl::StrCat(field, ".special_tokens"), id,
                             "expected the id of a token");
        }
        read_.before_document.push_back(id.get<int32_t>());
      }
    }
    return absl::OkStatus();
  }

  absl::Status Decoder(const Json& rule, const std::string& field) {
    const std::string type = TypeOf(rule);
    if (type == "Sequence") return InSequence(rule, field, "decoders", &RuleReader::Decoder);
    if (type == "ByteLevel") {
      decodes_bytes_ = true;
    } else if (type == "ByteFallback") {
      read_.byte_tokens = true;
    } else if (type == "Metaspace") {
      read_.space = TextOf(MemberOf(rule, "replacement"));
    } else if (type == "Replace" && MemberOf(rule, "content") == Json(" ") &&
               !TextOf(MemberOf(MemberOf(rule, "pattern"), "String")).empty()) {
      read_.space = TextOf(MemberOf(MemberOf(rule, "pattern"), "String"));
    } else if (type != "Fuse" && type != "Strip") {
      return RefuseField(origin_, field, rule,
                         "only ByteLevel, ByteFallback, Fuse, Metaspace, Replace by a space, Strip "
                         "and Sequence are understood");
    }
    return absl::OkStatus();
  }

  const std::string& origin_;
  ReadTextRules read_;
  bool decodes_bytes_ = false;
};

// Returns whether the rules are GPT-2's: byte-level, its words, and nothing else.
bool AreGpt2s(const Json& tokenizer) {
  const Json& pre_tokenizer = MemberOf(tokenizer, "pre_tokenizer");
  const Json& use_regex = MemberOf(pre_tokenizer, "use_regex");
  const auto is_byte_level = [&](const char* field) {
    const Json& value = MemberOf(tokenizer, field);
    return value.is_null() || TypeOf(value) == "ByteLevel";
  };
  return MemberOf(tokenizer, "normalizer").is_null() && TypeOf(pre_tokenizer) == "ByteLevel" &&
         IsOff(MemberOf(pre_tokenizer, "add_prefix_space")) &&
         (use_regex.is_null() || use_regex == Json(true)) && is_byte_level("post_processor") &&
         is_byte_level("decoder");
}

}  // namespace

TextRules TextRulesOf(const Json& tokenizer) {
  if (AreGpt2s(tokenizer)) return {};
  const auto text_of = [&](const char* field) {
    const Json& value = MemberOf(tokenizer, field);
    return value.is_null() ? std::string() : DumpJson(value, -1);
  };
  // Never empty, even if the file has none of them.
  return {text_of("normalizer"), DumpJson(MemberOf(tokenizer, "pre_tokenizer"), -1),
          text_of("post_processor"), text_of("decoder")};
}

void WriteTextRules(const TextRules& rules, Json& tokenizer) {
  const auto write = [&](const char* field, const std::string& text) {
    tokenizer[field] = text.empty() ? Json() : Json::parse(text, nullptr, false);
  };
  write("normalizer", rules.normalizer);
  write("pre_tokenizer", rules.pre_tokenizer);
  write("post_processor", rules.post_processor);
  write("decoder", rules.decoder);
  if (!rules.pre_tokenizer.empty()) return;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  tokenizer["pre_tokenizer"] = byte_level;
  tokenizer["decoder"] = byte_level;
}

absl::StatusOr<ReadTextRules> ParseTextRules(const TextRules& rules, const std::string& origin) {
  if (!rules.pre_tokenizer.empty()) return RuleReader(origin).Read(rules);
  TextRules gpt2;
  gpt2.pre_tokenizer = "{\"type\": \"ByteLevel\"}";
  MUSTER_ASSIGN_OR_RETURN(ReadTextRules read, RuleReader(origin).Read(gpt2));
  read.identity.clear();
  return read;
}

}  // namespace muster
