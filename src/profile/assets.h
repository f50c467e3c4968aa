/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are part of the program: assets/ beside this, made into C by embed.py.
 */
#pragma once

#include "base/view.h"

extern const struct bytes profile_asset_svg_js, profile_asset_page_js, profile_asset_page_css, profile_asset_page_html;
