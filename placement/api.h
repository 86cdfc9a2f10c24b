// placement/api.h: what the shared library exports. Everything is hidden but the namespaces of
// public headers, which say TSR_API.
#pragma once

#define TSR_API __attribute__((visibility("default")))
