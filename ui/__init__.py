"""What people see: numbers with units, tables in a terminal; pages, forms and charts as the app grows."""
