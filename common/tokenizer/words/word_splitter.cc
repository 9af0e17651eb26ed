#include "common/tokenizer/words/word_splitter.h"

#include <algorithm>
#include <optional>

#include "common/text/utf8.h"

namespace muster {
namespace {

// Makes pieces of the matches in a text and of what stands between them.
class PieceMaker {
 public:
  using Behavior = WordSplitter::Behavior;

  PieceMaker(const WordSplitter::Split& split, absl::string_view text,
             absl::FunctionRef<void(absl::string_view piece, bool is_gap)> visit)
      : split_(split), text_(text), visit_(visit) {}

  // Takes [begin, end), which is a match or stands between two. They come in order, without gaps.
  void Take(size_t begin, size_t end, bool is_match) {
    if (begin == end) return;
    const bool delimits = is_match != split_.inverted;
    switch (split_.behavior) {
      case Behavior::kIsolated:
        visit_(text_.substr(begin, end - begin), !is_match);
        return;
      case Behavior::kRemoved:
        if (!delimits) visit_(text_.substr(begin, end - begin), !is_match);
        return;
      case Behavior::kContiguous:
        if (!pending_ || delimits != pending_delimits_) Flush();
        break;
      case Behavior::kMergedWithPrevious:
        if (!pending_ || !delimits || pending_delimits_) Flush();
        break;
      case Behavior::kMergedWithNext:
        if (!pending_ || delimits || !pending_delimits_) Flush();
        break;
    }
    if (!pending_) begin_ = begin;
    pending_ = true;
    end_ = end;
    pending_delimits_ = delimits;
  }

  void Flush() {
    if (!pending_) return;
    pending_ = false;
    visit_(text_.substr(begin_, end_ - begin_), false);
  }

 private:
  const WordSplitter::Split& split_;
  const absl::string_view text_;
  const absl::FunctionRef<void(absl::string_view piece, bool is_gap)> visit_;
  // A piece that may go on, and whether its last part delimits.
  bool pending_ = false;
  bool pending_delimits_ = false;
  size_t begin_ = 0;
  size_t end_ = 0;
};

void ForEachPiece(const WordSplitter::Split& split, ExpressionMatcher& matcher,
                  absl::string_view text,
                  absl::FunctionRef<void(absl::string_view piece, bool is_gap)> visit) {
  matcher.SetText(text);
  PieceMaker maker(split, text, visit);
  size_t at = 0;
  size_t from = 0;
  while (from < text.size()) {
    const std::optional<ExpressionMatcher::Match> match = matcher.Find(from);
    if (!match.has_value()) break;
    maker.Take(at, match->begin, false);
    maker.Take(match->begin, match->end, true);
    at = match->end;
    from = match->end;
    if (match->begin == match->end && from < text.size()) {
      from += FirstCodePoint(text.substr(from)).bytes;
    }
  }
  maker.Take(at, text.size(), false);
  maker.Flush();
}

}  // namespace

bool WordSplitter::can_divide() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const auto& stage) {
    const auto* split = std::get_if<Split>(&stage);
    return split != nullptr && !split->expression->looks_behind();
  });
}

bool WordSplitter::divides_before_spaces() const {
  // Further stages divide what the first one leaves, and no more.
  const auto* first = stages_.empty() ? nullptr : std::get_if<Split>(&stages_[0]);
  return can_divide() && first != nullptr && first->behavior == Behavior::kIsolated &&
         !first->inverted && first->ends_before_spaces;
}

WordSplitter::Run::Run(const WordSplitter& splitter) : splitter_(splitter) {
  for (const auto& stage : splitter.stages_) {
    const auto* split = std::get_if<Split>(&stage);
    matchers_.push_back(split == nullptr ? nullptr
                                         : std::make_unique<ExpressionMatcher>(*split->expression));
  }
}

WordSplitter::Run::~Run() = default;

void WordSplitter::Run::ForEachWord(absl::string_view text, TextPlace place,
                                    absl::FunctionRef<void(const Word& word)> visit) {
  if (!text.empty()) Divide(0, {text, true, true}, place, visit);
}

void WordSplitter::Run::Divide(size_t stage, Word piece, TextPlace place,
                               absl::FunctionRef<void(const Word& word)> visit) {
  if (stage == splitter_.stages_.size()) return visit(piece);
  if (const auto* rewriter = std::get_if<Rewriter>(&splitter_.stages_[stage])) {
    std::string buffer;
    return Divide(stage + 1, {rewriter->Apply(piece.text, place, buffer)}, place, visit);
  }
  const auto& split = std::get<Split>(splitter_.stages_[stage]);
  const bool is_last = stage + 1 == splitter_.stages_.size();
  // Words within a match end where they do because it begins where it does. Those within a gap
  // would be divided alike from any of their ends on.
  ForEachPiece(split, *matchers_[stage], piece.text, [&](absl::string_view part, bool is_gap) {
    const bool ends_piece = part.data() + part.size() == piece.text.data() + piece.text.size();
    const bool divides = piece.divides || !ends_piece;
    if (is_last) {
      visit({part, divides, piece.unmatched && is_gap});
    } else if (is_gap) {
      Divide(stage + 1, {part, divides, piece.unmatched}, place, visit);
    } else {
      Divide(stage + 1, {part}, place, [&](const Word& word) {
        const bool ends = word.text.data() + word.text.size() == part.data() + part.size();
        visit({word.text, ends && divides, false});
      });
    }
    place = TextPlace::kBegins;
  });
}

}  // namespace muster
