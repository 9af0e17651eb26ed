#include "common/chat_template/syntax/token_stream.h"

#include "absl/strings/str_cat.h"
#include "common/chat_template/syntax/template_error.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

std::string Describe(TemplateToken::Kind kind) {
  switch (kind) {
    case TemplateToken::Kind::kText:
      return "text";
    case TemplateToken::Kind::kPrintBegin:
      return "'{{'";
    case TemplateToken::Kind::kPrintEnd:
      return "'}}'";
    case TemplateToken::Kind::kBlockBegin:
      return "'{%'";
    case TemplateToken::Kind::kBlockEnd:
      return "'%}'";
    case TemplateToken::Kind::kName:
      return "a name";
    case TemplateToken::Kind::kString:
      return "a string";
    case TemplateToken::Kind::kInteger:
      return "an integer";
    case TemplateToken::Kind::kFloat:
      return "a float";
    case TemplateToken::Kind::kSign:
      return "a sign";
    case TemplateToken::Kind::kEnd:
      return "the end of the template";
  }
  return "something else";
}

}  // namespace

bool IsKeyword(absl::string_view word) {
  for (const absl::string_view each : {"and", "elif", "else", "if", "in", "is", "not", "or", "true",
                                       "True", "false", "False", "none", "None"}) {
    if (word == each) return true;
  }
  return false;
}

bool TokenStream::IsSign(absl::string_view sign) const {
  return current().kind == TemplateToken::Kind::kSign && current().text == sign;
}

bool TokenStream::IsName(absl::string_view name) const {
  return current().kind == TemplateToken::Kind::kName && current().text == name;
}

bool TokenStream::TakeSign(absl::string_view sign) {
  if (!IsSign(sign)) return false;
  Skip();
  return true;
}

bool TokenStream::TakeName(absl::string_view name) {
  if (!IsName(name)) return false;
  Skip();
  return true;
}

absl::Status TokenStream::ExpectSign(absl::string_view sign) {
  if (TakeSign(sign)) return absl::OkStatus();
  return Unexpected(absl::StrCat("'", sign, "'"));
}

absl::Status TokenStream::Expect(TemplateToken::Kind kind) {
  if (current().kind != kind) return Unexpected(Describe(kind));
  Skip();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenStream::ExpectName() {
  if (current().kind != TemplateToken::Kind::kName || IsKeyword(current().text)) {
    return Unexpected("a name");
  }
  std::string name = current().text;
  Skip();
  return name;
}

absl::Status TokenStream::Error(absl::string_view message) const {
  return ErrorAt(current().offset, message);
}

absl::Status TokenStream::ErrorAt(size_t offset, absl::string_view message) const {
  return TemplateError(source_, offset, message);
}

absl::Status TokenStream::Unexpected(absl::string_view expected) const {
  const bool word =
      current().kind == TemplateToken::Kind::kName || current().kind == TemplateToken::Kind::kSign;
  return Error(absl::StrCat("expected ", expected, ", found ",
                            word ? Quote(current().text) : Describe(current().kind),
                            "; correct the tag"));
}

absl::Status TokenStream::CheckDepth(int depth) const {
  if (depth <= max_depth_) return absl::OkStatus();
  return Error(absl::StrCat("blocks and expressions lie more than ", max_depth_,
                            " deep in one another here; flatten them"));
}

}  // namespace muster
