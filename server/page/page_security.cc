#include "server/page/page_security.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

// Returns the host of HOST or HOST:PORT, without the brackets of an IPv6 address; absent: it is
// malformed.
std::optional<std::string> HostOf(absl::string_view text) {
  absl::string_view host = text, port;
  const size_t bracket = text.find(']');
  const size_t colon = text.find(':', bracket == absl::string_view::npos ? 0 : bracket);
  if (colon != absl::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    uint32_t number = 0;
    const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
    if (!digits || !absl::SimpleAtoi(port, &number) || number > 65535) return std::nullopt;
  }
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return std::nullopt;
    in6_addr address = {};
    if (inet_pton(AF_INET6, std::string(host).c_str(), &address) != 1) return std::nullopt;
    return std::string(host);
  }
  const bool named = !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
  });
  if (!named) return std::nullopt;
  return absl::AsciiStrToLower(host);
}

bool IsAddress(const std::string& host) {
  in6_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

absl::Status CheckHost(absl::Span<const absl::string_view> host,
                       absl::Span<const std::string> names) {
  if (host.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request has ", host.size(), " Host headers; it must have one"));
  }
  const std::optional<std::string> name = HostOf(host.front());
  if (!name.has_value()) return absl::InvalidArgumentError("the Host header is malformed");
  const bool known = IsAddress(*name) || *name == "localhost" ||
                     absl::EndsWith(*name, ".localhost") ||
                     std::any_of(names.begin(), names.end(), [&](const std::string& allowed) {
                       return absl::EqualsIgnoreCase(allowed, *name);
                     });
  if (known) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("this coordinator is not called \"", *name,
                   "\"; if it is, start it with --page-host=", *name));
}

absl::Status CheckToken(absl::Span<const absl::string_view> authorization,
                        absl::string_view token) {
  absl::string_view given = authorization.size() == 1 ? authorization.front() : "";
  const bool bearer = absl::StartsWithIgnoreCase(given, "bearer ");
  if (!bearer) {
    return absl::UnauthenticatedError(
        "this needs the token of the coordinator's --page-token-file, as a bearer token");
  }
  given = absl::StripLeadingAsciiWhitespace(given.substr(sizeof("bearer")));
  // A token of a wrong length is compared with itself, so that it takes as long.
  const bool same_length = given.size() == token.size();
  const absl::string_view other = same_length ? token : given;
  const bool same = CRYPTO_memcmp(given.data(), other.data(), given.size()) == 0;
  if (same && same_length) return absl::OkStatus();
  return absl::UnauthenticatedError("the token is not that of the coordinator's --page-token-file");
}

absl::Status CheckOrigin(absl::Span<const absl::string_view> origin, absl::string_view host) {
  absl::string_view said = origin.size() == 1 ? origin.front() : "";
  const bool scheme =
      absl::ConsumePrefix(&said, "http://") || absl::ConsumePrefix(&said, "https://");
  if (scheme && absl::EqualsIgnoreCase(said, host)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "the request's Origin is not the page of this coordinator; use that page, or the `muster` "
      "command");
}

bool IsJson(absl::Span<const absl::string_view> content_type) {
  if (content_type.size() != 1) return false;
  absl::string_view type = content_type.front();
  if (!absl::StartsWithIgnoreCase(type, "application/json")) return false;
  type = absl::StripAsciiWhitespace(type.substr(sizeof("application/json") - 1));
  if (type.empty()) return true;
  if (!absl::ConsumePrefix(&type, ";")) return false;
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), "charset=utf-8");
}

}  // namespace muster
