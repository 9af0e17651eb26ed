#ifndef MUSTER_SERVER_PAGE_PAGE_SECURITY_H_
#define MUSTER_SERVER_PAGE_PAGE_SECURITY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Checks of a request's headers, which pages of other origins, and programs of other users, may
// have sent. The values of a header are all those that the request has. Pure functions.

// Checks that a request's Host is an IP address, a loopback name (localhost, or a name below it) or
// one of `names`, each with any port. A page elsewhere whose name an attacker lets point here is
// refused so (DNS rebinding). InvalidArgument: there is not exactly one Host, or it is malformed.
// PermissionDenied: another name.
absl::Status CheckHost(absl::Span<const absl::string_view> host,
                       absl::Span<const std::string> names);

// Checks that a request has `Authorization: Bearer TOKEN`. Compares in a time that does not depend
// on the token. Unauthenticated: it has not. REQUIRES: token is not empty.
absl::Status CheckToken(absl::Span<const absl::string_view> authorization, absl::string_view token);

// Checks that a request was made by a page of this listener: its Origin is an HTTP or HTTPS origin
// with the host and port of `host`, which CheckHost took. PermissionDenied: it was not.
absl::Status CheckOrigin(absl::Span<const absl::string_view> origin, absl::string_view host);

// Returns whether a Content-Type is JSON's, in UTF-8 if it says so.
bool IsJson(absl::Span<const absl::string_view> content_type);

}  // namespace muster

#endif  // MUSTER_SERVER_PAGE_PAGE_SECURITY_H_
