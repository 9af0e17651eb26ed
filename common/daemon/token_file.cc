#include "common/daemon/token_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

constexpr size_t kFewestTokenBytes = 16;
constexpr size_t kMostTokenBytes = 1024;

// Returns whether a bearer token may have the character (RFC 6750, section 2.1).
bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._~+/=", c);
}

}  // namespace

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostTokenBytes + 64, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) {
    return absl::InvalidArgumentError(absl::StrCat("the token file ", path, " cannot be read"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  const std::string token(absl::StripAsciiWhitespace(text));
  const bool fits = std::all_of(token.begin(), token.end(), IsTokenCharacter);
  if (!fits || token.size() < kFewestTokenBytes || token.size() > kMostTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token file ", path, " must have one token of ", kFewestTokenBytes, " to ",
                     kMostTokenBytes,
                     " letters, digits and -._~+/=; make one with: openssl rand -hex 32 > ", path));
  }
  return token;
}

absl::Status CheckIsPrivate(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the token file ", path, " cannot be read"));
  }
  const mode_t refused = S_IRWXO | S_IWGRP | S_IXGRP | (file.st_uid == 0 ? 0 : S_IRGRP);
  if ((file.st_mode & refused) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("other users have access to the token file ", path,
                   ", so that they could run programs; take it from them with: chmod 600 ", path));
}

}  // namespace muster
