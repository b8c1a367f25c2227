// Sets the theme before the page is drawn, so that it does not flash in the
// other one. It is no module, because modules run later.
'use strict';
try {
  const theme = localStorage.getItem('kennel-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch { /* the browser keeps nothing for this page */ }
