#include "common/tokenizer/sentencepiece/sentencepiece_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"
#include "common/text/utf8.h"
#include "common/tokenizer/sentencepiece/sentencepiece_model.pb.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Files write a space so: U+2581.
constexpr char kSpace[] = "\xe2\x96\x81";
// Spaces at the beginning of a text, or at its end.
constexpr char kSpacesAtEnds[] = "(?<![\\s\\S]) +| +(?![\\s\\S])";

constexpr int kMostPieces = 1 << 24;
// No piece for words is longer; the merges of one of n characters are up to n - 1.
constexpr size_t kLongestMerged = 256;

absl::Status Refuse(const std::string& origin, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", what));
}

absl::Status CheckModel(const sentencepiece::Model& model, const std::string& origin) {
  if (model.pieces_size() == 0) {
    return Refuse(origin, "the file has no pieces; expected SentencePiece's tokenizer.model");
  }
  if (model.pieces_size() > kMostPieces) {
    return Refuse(origin, absl::StrCat("the file has ", model.pieces_size(),
                                       " pieces, more than the ", kMostPieces, " supported"));
  }
  switch (model.trainer().model_type()) {
    case sentencepiece::MODEL_TYPE_UNSPECIFIED:
    case sentencepiece::UNIGRAM:
    case sentencepiece::BPE:
      break;
    default:
      return Refuse(origin,
                    "trainer_spec.model_type is neither BPE nor UNIGRAM; only these are "
                    "understood");
  }
  if (model.trainer().treat_whitespace_as_suffix()) {
    return Refuse(origin,
                  "trainer_spec.treat_whitespace_as_suffix is true; only false is "
                  "understood");
  }
  const sentencepiece::Normalizer& normalizer = model.normalizer();
  if (normalizer.has_escape_whitespaces() && !normalizer.escape_whitespaces()) {
    return Refuse(origin, "normalizer_spec.escape_whitespaces is false; only true is understood");
  }
  for (int id = 0; id < model.pieces_size(); ++id) {
    const sentencepiece::Piece& piece = model.pieces(id);
    if (piece.piece().empty() || !IsUtf8(piece.piece())) {
      return Refuse(origin, absl::StrCat("piece ", id, " is empty or not UTF-8; expected text"));
    }
    if (!std::isfinite(piece.score())) {
      return Refuse(origin, absl::StrCat("piece ", id, " has no finite score"));
    }
  }
  return absl::OkStatus();
}

TextRules RulesOf(const sentencepiece::Normalizer& normalizer) {
  const auto is_set = [](bool has, bool value) { return !has || value; };
  const auto replace = [](const Json& pattern, const char* content) {
    return Json({{"type", "Replace"}, {"pattern", pattern}, {"content", content}});
  };
  Json steps = Json::array();
  if (!normalizer.precompiled_charsmap().empty()) {
    steps.push_back(
        {{"type", "Precompiled"},
         {"precompiled_charsmap", absl::Base64Escape(normalizer.precompiled_charsmap())}});
  }
  if (is_set(normalizer.has_remove_extra_whitespaces(), normalizer.remove_extra_whitespaces())) {
    steps.push_back(replace({{"Regex", kSpacesAtEnds}}, ""));
    steps.push_back(replace({{"Regex", " {2,}"}}, " "));
  }
  if (is_set(normalizer.has_add_dummy_prefix(), normalizer.add_dummy_prefix())) {
    steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  }
  steps.push_back(replace({{"String", " "}}, kSpace));
  const Json decoders = {
      replace({{"String", kSpace}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  TextRules rules;
  rules.normalizer = DumpJson(Json({{"type", "Sequence"}, {"normalizers", steps}}));
  rules.pre_tokenizer = "null";
  rules.decoder = DumpJson(Json({{"type", "Sequence"}, {"decoders", decoders}}));
  return rules;
}

std::vector<AddedToken> AddedOf(const sentencepiece::Model& model) {
  std::vector<AddedToken> added;
  for (int id = 0; id < model.pieces_size(); ++id) {
    const sentencepiece::Piece& piece = model.pieces(id);
    const bool defined = piece.type() == sentencepiece::USER_DEFINED;
    if (!defined && piece.type() != sentencepiece::CONTROL &&
        piece.type() != sentencepiece::UNKNOWN) {
      continue;
    }
    AddedToken token;
    token.id = id;
    token.content = piece.piece();
    token.special = !defined;
    // Spaces in such pieces are written as in the normalized text.
    token.normalized = defined;
    added.push_back(std::move(token));
  }
  return added;
}

std::optional<int32_t> UnknownOf(const sentencepiece::Model& model) {
  for (int id = 0; id < model.pieces_size(); ++id) {
    if (model.pieces(id).type() == sentencepiece::UNKNOWN) return id;
  }
  return std::nullopt;
}

std::vector<std::pair<int32_t, int32_t>> MergesOf(const sentencepiece::Model& model) {
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  const auto is_of_words = [](const sentencepiece::Piece& piece) {
    return piece.type() == sentencepiece::NORMAL || piece.type() == sentencepiece::UNSPECIFIED ||
           piece.type() == sentencepiece::USER_DEFINED;
  };
  for (int id = 0; id < model.pieces_size(); ++id) {
    if (is_of_words(model.pieces(id))) ids.emplace(model.pieces(id).piece(), id);
  }
  struct Merge {
    float score;
    int32_t left, right;
  };
  std::vector<Merge> merges;
  for (const sentencepiece::Piece& piece : model.pieces()) {
    const absl::string_view text = piece.piece();
    if (!is_of_words(piece) || text.size() > kLongestMerged) continue;
    const size_t first = merges.size();
    for (size_t at = FirstCodePoint(text).bytes; at < text.size();
         at += FirstCodePoint(text.substr(at)).bytes) {
      const auto left = ids.find(text.substr(0, at));
      const auto right = ids.find(text.substr(at));
      if (left != ids.end() && right != ids.end()) {
        merges.push_back({piece.score(), left->second, right->second});
      }
    }
    std::sort(merges.begin() + static_cast<ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) {
                return std::make_pair(a.left, a.right) < std::make_pair(b.left, b.right);
              });
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.score > b.score; });
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (const Merge& merge : merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

}  // namespace

absl::StatusOr<std::variant<BpeVocabulary, UnigramVocabulary>> ParseSentencepieceFile(
    absl::string_view bytes, const std::string& origin) {
  sentencepiece::Model model;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Refuse(origin,
                  "the file is no message of SentencePiece's; expected its tokenizer.model");
  }
  MUSTER_RETURN_IF_ERROR(CheckModel(model, origin));
  std::vector<std::string> tokens;
  for (const sentencepiece::Piece& piece : model.pieces()) tokens.push_back(piece.piece());
  if (model.trainer().model_type() == sentencepiece::BPE) {
    BpeVocabulary vocabulary;
    vocabulary.tokens = std::move(tokens);
    vocabulary.merges = MergesOf(model);
    vocabulary.added = AddedOf(model);
    vocabulary.rules = RulesOf(model.normalizer());
    vocabulary.byte_level = false;
    vocabulary.byte_fallback = model.trainer().byte_fallback();
    vocabulary.fuses_unknown = true;
    vocabulary.unknown = UnknownOf(model);
    return vocabulary;
  }
  UnigramVocabulary vocabulary;
  vocabulary.tokens = std::move(tokens);
  for (const sentencepiece::Piece& piece : model.pieces()) {
    vocabulary.scores.push_back(piece.score());
  }
  vocabulary.added = AddedOf(model);
  vocabulary.rules = RulesOf(model.normalizer());
  vocabulary.byte_fallback = model.trainer().byte_fallback();
  vocabulary.unknown = UnknownOf(model);
  return vocabulary;
}

}  // namespace muster
