#include "common/program/content_hash.h"

#include <openssl/evp.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr absl::string_view kPrefix = "sha256-";
constexpr size_t kHashDigits = 64;

}  // namespace

void ContentHash::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

ContentHash::ContentHash() : context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

void ContentHash::Add(absl::string_view bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string ContentHash::Name() {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(context_.get(), hash, &length);
  return absl::StrCat(
      kPrefix, absl::BytesToHexString({reinterpret_cast<const char*>(hash), size_t{length}}));
}

bool IsContentName(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kPrefix) || text.size() != kHashDigits) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
  });
}

}  // namespace muster
