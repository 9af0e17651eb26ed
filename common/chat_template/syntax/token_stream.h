#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TOKEN_STREAM_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TOKEN_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/syntax/template_lexer.h"

namespace muster {

// The tokens of a template as its parsers take them. Counts how deep the parsers are in calls of
// themselves.
class TokenStream {
 public:
  // The tokens end with kEnd. `source` must outlive this.
  TokenStream(absl::string_view source, std::vector<TemplateToken> tokens, int max_depth)
      : source_(source), tokens_(std::move(tokens)), max_depth_(max_depth) {}

  const TemplateToken& current() const { return tokens_[at_]; }
  const TemplateToken& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  // Moves on, but not past kEnd.
  void Skip() { at_ = std::min(at_ + 1, tokens_.size() - 1); }

  bool IsSign(absl::string_view sign) const;
  bool IsName(absl::string_view name) const;
  // Skips the token if it is this one.
  bool TakeSign(absl::string_view sign);
  bool TakeName(absl::string_view name);

  absl::Status ExpectSign(absl::string_view sign);
  absl::Status Expect(TemplateToken::Kind kind);
  // Takes a name that a template may give something.
  absl::StatusOr<std::string> ExpectName();

  // Returns an error at the current token, or at an offset.
  absl::Status Error(absl::string_view message) const;
  absl::Status ErrorAt(size_t offset, absl::string_view message) const;
  // Returns "expected ..., found ...".
  absl::Status Unexpected(absl::string_view expected) const;

  absl::Status CheckDepth(int depth) const;

  // Is in scope while a parser calls itself.
  class Nested {
   public:
    explicit Nested(TokenStream& stream) : stream_(stream) { ++stream_.depth_; }
    ~Nested() { --stream_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    absl::Status Check() const { return stream_.CheckDepth(stream_.depth_); }

   private:
    TokenStream& stream_;
  };

 private:
  const absl::string_view source_;
  const std::vector<TemplateToken> tokens_;
  const int max_depth_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Returns whether Jinja takes the word for a part of its grammar.
bool IsKeyword(absl::string_view word);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TOKEN_STREAM_H_
