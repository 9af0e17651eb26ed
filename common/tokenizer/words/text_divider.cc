#include "common/tokenizer/words/text_divider.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/text/utf8.h"
#include "common/tokenizer/words/expression.h"

namespace muster {
namespace {

// Expressions look at what follows a word. So words are known only if so many stand behind them, or
// the text's end does; and as many before a place are divided again, to see that the place itself
// makes no difference.
constexpr size_t kWordsBeside = 8;
// Text behind a place that is divided first to find an end of a word; twice that, and so on.
constexpr size_t kFirstBehind = size_t{4} << 10;
// Words that end in so many bytes before a place are remembered.
constexpr size_t kNotedBefore = size_t{4} << 10;

}  // namespace

TextDivider::TextDivider(ReadTextRules rules, std::vector<AddedToken> added,
                         std::unique_ptr<const CharacterPairs> pairs)
    : rules_(std::move(rules)), added_(std::move(added)), pairs_(std::move(pairs)) {
  std::string buffer;
  for (const AddedToken& token : added_) {
    if (!token.normalized) {
      of_text_.Add(token, token.content);
      continue;
    }
    const absl::string_view content =
        rules_.normalizer.Apply(token.content, TextPlace::kGoesOn, buffer);
    if (!content.empty()) of_normalized_.Add(token, content);
  }
  can_divide_ = rules_.splitter.can_divide() && rules_.normalizer.keeps_divisions() &&
                rules_.beginnings.keeps_divisions();
  begins_otherwise_ =
      rules_.normalizer.changes_beginnings() || rules_.beginnings.changes_beginnings();
  changes_text_ = !rules_.normalizer.empty() || !rules_.beginnings.empty();
  divides_before_spaces_ = can_divide_ && rules_.splitter.divides_before_spaces() &&
                           !changes_text_ && of_normalized_.empty();
}

void TextDivider::DivideWord(const WordSplitter::Word& word,
                             absl::FunctionRef<void(const Piece& piece)> visit) const {
  if (pairs_ == nullptr && word.text.size() <= kLongestWord) {
    return visit({word.text, nullptr, word.divides});
  }
  absl::string_view rest = word.text;
  const auto cut = [&](size_t bytes, bool divides) {
    while (bytes > kLongestWord) {
      const size_t most = CodePointBefore(rest, kLongestWord);
      visit({rest.substr(0, most), nullptr, false});
      rest.remove_prefix(most);
      bytes -= most;
    }
    visit({rest.substr(0, bytes), nullptr, divides});
    rest.remove_prefix(bytes);
  };
  if (pairs_ != nullptr && !rest.empty()) {
    CodePoint left = FirstCodePoint(rest);
    size_t bytes = left.bytes;
    while (bytes < rest.size()) {
      const CodePoint right = FirstCodePoint(rest.substr(bytes));
      if (!pairs_->Contains(left.value, right.value)) {
        cut(bytes, word.unmatched);
        bytes = 0;
      }
      bytes += right.bytes;
      left = right;
    }
  }
  cut(rest.size(), word.divides);
}

void TextDivider::DivideSegment(absl::string_view text, TextPlace place, WordSplitter::Run& run,
                                absl::FunctionRef<void(const Piece& piece)> visit) const {
  std::string normalized;
  text = rules_.normalizer.Apply(text, place, normalized);
  for (size_t at = 0; at < text.size();) {
    const AddedTokenFinder::Found found = of_normalized_.Next(text, at);
    const size_t end = found.token == nullptr ? text.size() : found.begin;
    if (end > at) {
      std::string begun;
      const absl::string_view words =
          rules_.beginnings.Apply(text.substr(at, end - at), place, begun);
      run.ForEachWord(words, place,
                      [&](const WordSplitter::Word& word) { DivideWord(word, visit); });
    }
    if (found.token == nullptr) return;
    // White space that it takes on its right may be all that is left.
    visit({text.substr(found.begin, found.end - found.begin), found.token, true});
    at = found.end;
    place = BehindAdded();
  }
}

void TextDivider::ForEachPiece(absl::string_view text, TextStart start,
                               absl::FunctionRef<void(const Piece& piece)> visit) const {
  WordSplitter::Run run(rules_.splitter);
  TextPlace place = start == TextStart::kWithin ? TextPlace::kGoesOn : TextPlace::kBegins;
  for (size_t at = 0; at < text.size();) {
    const AddedTokenFinder::Found found = of_text_.Next(text, at);
    const size_t end = found.token == nullptr ? text.size() : found.begin;
    if (end > at) DivideSegment(text.substr(at, end - at), place, run, visit);
    if (found.token == nullptr) return;
    visit({text.substr(found.begin, found.end - found.begin), found.token, true});
    at = found.end;
    place = BehindAdded();
  }
}

size_t TextDivider::SplitAfter(absl::string_view text, size_t at) const {
  if (!can_divide_) return text.size();
  for (size_t begin = 0; begin < text.size();) {
    const AddedTokenFinder::Found found = of_text_.Next(text, begin);
    const size_t end = found.token == nullptr ? text.size() : found.begin;
    if (end > at && end > begin) {
      const std::optional<size_t> place =
          SplitSegment(text.substr(begin, end - begin), std::max(at, begin + 1) - begin);
      if (place.has_value()) return begin + *place;
    }
    if (found.token == nullptr) break;
    if (end >= at && end > 0) return end;
    begin = found.end;
    if (begin >= at && !begins_otherwise_) return begin;
  }
  return text.size();
}

std::optional<size_t> TextDivider::SplitSegment(absl::string_view text, size_t at) const {
  // Otherwise all text up to the place is divided, which takes as long as encoding it.
  const size_t most = divides_before_spaces_ ? std::min(at + kFirstBehind, text.size()) : 0;
  for (size_t place = std::max<size_t>(at, 1); place < most; ++place) {
    if (text[place] == ' ' && absl::ascii_isalpha(static_cast<unsigned char>(text[place - 1]))) {
      return place;
    }
  }
  for (size_t behind = kFirstBehind;; behind *= 2) {
    const size_t end = rules_.normalizer.NextPlace(text, std::min(at + behind, text.size()));
    const std::optional<size_t> place = SplitBefore(text, at, end);
    if (place.has_value() || end == text.size()) return place;
  }
}

std::optional<size_t> TextDivider::SplitBefore(absl::string_view text, size_t at,
                                               size_t end) const {
  WordSplitter::Run run(rules_.splitter);
  std::string normalized;
  std::string begun;
  const auto changed = [&](absl::string_view part) {
    return rules_.beginnings.Apply(rules_.normalizer.Apply(part, TextPlace::kGoesOn, normalized),
                                   TextPlace::kGoesOn, begun);
  };
  std::string copy;
  if (changes_text_) copy = std::string(changed(text.substr(0, end)));
  const absl::string_view whole = changes_text_ ? absl::string_view(copy) : text.substr(0, end);
  // Where its parts lie in `whole` is known only if none of it is changed.
  if (changes_text_ && of_normalized_.Next(whole, 0).token != nullptr) return std::nullopt;
  struct End {
    size_t place;
    bool divides;
    bool operator==(const End& other) const { return place == other.place; }
  };
  // Returns the ends of a part's words, without those before `noted`.
  const auto ends_of = [&](size_t first, size_t last, size_t noted) {
    std::vector<End> ends;
    const auto note = [&](const Piece& piece) {
      const auto place = static_cast<size_t>(piece.text.data() + piece.text.size() - whole.data());
      if (place >= noted) ends.push_back({place, piece.divides});
    };
    const absl::string_view part = whole.substr(first, last - first);
    if (changes_text_) {
      run.ForEachWord(part, TextPlace::kGoesOn,
                      [&](const WordSplitter::Word& word) { DivideWord(word, note); });
    } else {
      DivideSegment(part, TextPlace::kGoesOn, run, note);
    }
    return ends;
  };
  const size_t noted = at - std::min(at, kNotedBefore);
  std::vector<End> ends = ends_of(0, whole.size(), noted);
  if (end < text.size()) ends.resize(ends.size() - std::min(ends.size(), kWordsBeside));
  // Returns whether the text up to the end of this word is divided as the whole.
  const auto is_alike = [&](size_t index) {
    if (begins_otherwise_ && index < kWordsBeside) return false;
    size_t first = index - std::min(index, kWordsBeside);
    while (first > 0 && !ends[first - 1].divides) --first;
    if (first == 0 && noted > 0) return false;
    const std::vector<End> expected(ends.begin() + first, ends.begin() + index + 1);
    return ends_of(first == 0 ? 0 : ends[first - 1].place, ends[index].place, 0) == expected;
  };
  size_t index = 0;
  size_t place = rules_.normalizer.NextPlace(text, at);
  size_t bytes = changed(text.substr(0, place)).size();
  while (place < end) {
    while (index < ends.size() && ends[index].place < bytes) ++index;
    if (index == ends.size()) return std::nullopt;
    if (ends[index].place == bytes && ends[index].divides && is_alike(index)) return place;
    const size_t next = rules_.normalizer.NextPlace(text, place + 1);
    bytes += changed(text.substr(place, next - place)).size();
    place = next;
  }
  return std::nullopt;
}

std::unique_ptr<const TextDivider> Gpt2Words() {
  return std::make_unique<const TextDivider>(*ParseTextRules({}, "GPT-2's rules"),
                                             std::vector<AddedToken>(), nullptr);
}

}  // namespace muster
